"""What must not leave the machine does not; what helps to understand stays."""

from __future__ import annotations

import pytest

from stethoscope.redact import redact


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("password=hunter2 next", "password=[removed] next"),
        ("API_KEY: 'a b c', x", "API_KEY: [removed], x"),
        ('{"token": "abc", "node": "gpu-1"}', '{"token": [removed], "node": "gpu-1"}'),
        ("watch --passphrase secret-words --fleet a.yaml", "watch --passphrase [removed] --fleet a.yaml"),
        ("Authorization: Basic dXNlcjpwYXNz and more", "Authorization: [removed]"),
        ("sent bearer abcdefgh12345", "sent bearer [removed]"),
        ("https://ops:pa55@host/x", "https://ops:[removed]@host/x"),
        ("key AKIAABCDEFGHIJKLMNOP.", "key [removed]."),
        ("a\n-----BEGIN OPENSSH PRIVATE KEY-----\nAAA\nBBB\n-----END OPENSSH PRIVATE KEY-----\nb", "a\n[removed]\nb"),
        ("-----BEGIN RSA PRIVATE KEY-----\nAAA cut off", "[removed]"),
        ("sent Basic dXNlcjpwYXNzMQ==", "sent Basic [removed]"),
        ("basic diagnostics, basic troubleshooting", "basic diagnostics, basic troubleshooting"),
        ("PGPASSWORD=x SSHPASS=y SECRET_KEY=z", "PGPASSWORD=[removed] SSHPASS=[removed] SECRET_KEY=[removed]"),
        (
            "TOKENIZERS_PARALLELISM=false MAX_TOKENS=4096 BYPASS=1",
            "TOKENIZERS_PARALLELISM=false MAX_TOKENS=4096 BYPASS=1",
        ),
        ("hf_abcdefghijklmnopqrst sk-abcdefghijklmnopqrst1", "[removed] [removed]"),
        ("gpu-007: auth refused: publickey", "gpu-007: auth refused: publickey"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nAAA\n-----END PGP PRIVATE KEY BLOCK-----", "[removed]"),
        ("-----BEGIN PUBLIC KEY-----\nMIIB\n", "-----BEGIN PUBLIC KEY-----\nMIIB\n"),
        ("redis://:s3cr3t@host:6379/0", "redis://:[removed]@host:6379/0"),
        ("BMC 密码：hunter2，口令是 abcd1234", "BMC 密码：[removed]，口令是 [removed]"),
        ("密码是正确的", "密码是正确的"),
        ("password is hunter2, the password is wrong", "password is [removed], the password is wrong"),
        ("ipmitool -H bmc -U ADMIN -P ADMIN123 power status", "ipmitool -H bmc -U ADMIN -P [removed] power status"),
        (
            "curl -u ops:pa55 https://x; sshpass -p x1 ssh a",
            "curl -u ops:[removed] https://x; sshpass -p [removed] ssh a",
        ),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstuv ghu_abcdefghij1234", "[removed] [removed]"),
        ("https://hooks.slack.com/services/T0/B0/XX", "https://hooks.slack.com/services/[removed]"),
        ("//registry/:_authToken=abc123", "//registry/:_authToken=[removed]"),
        ("ACCESS_REG(0x805) timeout. token: 0x1d4", "ACCESS_REG(0x805) timeout. token: 0x1d4"),
        ("token: 4096 tok/s, eos_token=</s>", "token: 4096 tok/s, eos_token=</s>"),
        ("pass: 4 of 5, PASS=1, second pass: 12.4 GB/s", "pass: 4 of 5, PASS=1, second pass: 12.4 GB/s"),
        ("DB_PASS=hunter2 pass=hunter2", "DB_PASS=[removed] pass=[removed]"),
        ("password: none, Kerberos token: expired", "password: none, Kerberos token: expired"),
        ("PWD=/root OLDPWD=/data", "PWD=/root OLDPWD=/data"),
        ("sk-hynix-abcdefgh-ijklmnopqrst", "sk-hynix-abcdefgh-ijklmnopqrst"),
        (
            "GPU-5ba3a7b2-d5e1-4c3f-9a3c-0c1d2e3f4a5b sn 1323021001234",
            "GPU-5ba3a7b2-d5e1-4c3f-9a3c-0c1d2e3f4a5b sn 1323021001234",
        ),
        ("token budget of 5 at /home/x/.ssh/id_ed25519", "token budget of 5 at /home/x/.ssh/id_ed25519"),
    ],
)
def test_secrets_go_and_the_rest_stays(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


def test_values_of_variables_that_are_named_so_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT_TOKEN", "zzz-very-secret")
    monkeypatch.setenv("MY_SECRET_FILE", "/etc/secret")
    monkeypatch.setenv("MAX_TOKENS", "131072")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "prefer")
    assert redact("sent zzz-very-secret from /etc/secret") == "sent [removed] from /etc/secret"
    assert redact("we prefer 131072") == "we prefer 131072"
