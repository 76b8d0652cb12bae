"""What is said of a signature and of a code, and which are found by words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from stethoscope.session.explain import Part, explanation, listed
from stethoscope.specs.codes import Codes, load_codes
from stethoscope.specs.signature import Signatures, Variant, load_signatures


@cache
def known() -> tuple[Signatures, Codes]:
    return load_signatures(), load_codes()


def parts(id_: str) -> dict[str, tuple[str, ...]]:
    found = explanation(id_, *known())
    assert found is not None
    return {part.label: part.texts for part in found.parts}


def test_a_code_says_what_to_do_now() -> None:
    found = explanation("xid.79", *known())
    assert found is not None
    assert (found.id, found.title, found.severity.value) == ("xid.79", "Xid 79: GPU has fallen off the bus", "P0")
    said = parts("xid.79")
    assert said["node"] == ("take it out of service now",)
    assert said["job"] == ("stops: start it again",)
    assert said["causes"][0].startswith("1 ")
    assert said["more"] == ("stethoscope xid 79",)


def test_a_code_that_no_table_has_is_explained_as_unknown() -> None:
    found = explanation("xid.9999", *known())
    assert found is None or found.severity.value in ("info", "none", "P2")


def test_every_signature_and_code_can_be_explained() -> None:
    signatures, codes = known()
    every = listed("", signatures, codes)
    assert len({one.id for one in every}) == len(every) > 400
    for one in every:
        found = explanation(one.id, signatures, codes)
        assert found is not None
        assert found.title
        assert found.parts[0].label == "is"
        assert all(text.strip() for part in found.parts for text in part.texts), one.id


def test_variants_say_when_and_what() -> None:
    signatures, codes = known()
    one = replace(
        signatures.by_id["nccl.ib.completion"],
        variants=(
            Variant({"status": ("12", "13")}, {"meaning": "No answer.", "severity": "P0", "next_checks": ["a", "b"]}),
        ),
    )
    only = Signatures({one.id: one}, {})
    found = explanation(one.id, only, codes)
    assert found is not None
    assert Part("when", ("status 12 or 13: No answer. [P0]", "check: a; b")) in found.parts


def test_words_find_ids_first() -> None:
    found = listed("xid fallen", *known())
    assert [one.id for one in found if one.id == "xid.79"] == ["xid.79"]
    first = listed("watchdog", *known())
    assert "watchdog" in first[0].id
    assert listed("no such words at all", *known()) == []


def test_nothing_is_known_of_what_nobody_defined() -> None:
    assert explanation("no.such.thing", *known()) is None
