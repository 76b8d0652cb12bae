"""What a triage can be about: what is not there is said to be so, and is not found healthy."""

from __future__ import annotations

import pytest

from stethoscope.errors import UsageError
from stethoscope.session.focus import check_focus
from tests.ui.triage_scenes import scene, sick_link


@pytest.mark.parametrize(
    "focus", ["", "gpu-007", "gpu-007/ib/mlx5_3", "gpu-007/gpu/9", "job/4242", "job/4242/rank/3", "storage/shared"]
)
def test_what_is_there(focus: str) -> None:
    check_focus(scene(sick_link()), focus)


@pytest.mark.parametrize(
    ("focus", "says"),
    [
        ("gpu-0007", 'no node is called "gpu-0007" here; did you mean "gpu-007"'),
        ("gpu-007/ib/mlx5_33", 'nothing is known of gpu-007/ib/mlx5_33; did you mean "gpu-007/ib/mlx5_3"'),
        ("job/99", 'no job is called "99" here; known: 4242'),
        ("leaf/x", 'no leaf is called "x" here'),
    ],
)
def test_what_is_not_there(focus: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_focus(scene(sick_link()), focus)
    assert str(caught.value).startswith(says)
