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
        ("token budget of 5 at /home/x/.ssh/id_ed25519", "token budget of 5 at /home/x/.ssh/id_ed25519"),
    ],
)
def test_secrets_go_and_the_rest_stays(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


def test_values_of_variables_that_are_named_so_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT_TOKEN", "zzz-very-secret")
    monkeypatch.setenv("MY_SECRET_FILE", "/etc/secret")
    assert redact("sent zzz-very-secret from /etc/secret") == "sent [removed] from /etc/secret"
