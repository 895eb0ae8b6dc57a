"""The ten things in the photos, as filled outlines in whole numbers.

A shape lives on a square of 1000 by 1000 units, x to the right and y down. It is a
list of parts, painted in order; a part is the number of its paint and its outline.
Circles come from the rational points ((1-t²)/(1+t²), 2t/(1+t²)), so that no
floating-point sine can differ between two machines.
"""

from __future__ import annotations

from typing import NamedTuple

Outline = tuple[tuple[int, int], ...]
Paint = tuple[int, int, int]


class Shape(NamedTuple):
    """Parts ``(paint, outline)`` from back to front, and the liveries (one RGB paint each per number) to pick from."""

    parts: tuple[tuple[int, Outline], ...]
    liveries: tuple[tuple[Paint, ...], ...]


def _unit_circle(per_quarter: int = 8, scale: int = 1 << 16) -> Outline:
    quarter = []
    for k in range(per_quarter):
        norm = per_quarter**2 + k**2
        quarter.append((scale * (per_quarter**2 - k**2) // norm, scale * 2 * per_quarter * k // norm))
    turn = [*quarter, *((-y, x) for x, y in quarter)]
    return tuple([*turn, *((-x, -y) for x, y in turn)])


#: 32 points, clockwise on the screen from three o'clock, in 1/65536.
_CIRCLE = _unit_circle()


def _ellipse(cx: int, cy: int, rx: int, ry: int, first: int = 0, last: int = 32) -> Outline:
    return tuple((cx + (x * rx >> 16), cy + (y * ry >> 16)) for x, y in _CIRCLE[first:last])


def _box(left: int, top: int, right: int, bottom: int) -> Outline:
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _pill(left: int, top: int, right: int, bottom: int) -> Outline:
    """Return an upright bar with round ends."""
    radius, middle = (right - left) // 2, (left + right) // 2
    foot = _ellipse(middle, bottom - radius, radius, radius, 0, 17)
    head = _ellipse(middle, top + radius, radius, radius, 16, 32)
    return (*foot, *head, (right, top + radius))


def _petals(count: int, distance: int, radius: int) -> list[tuple[int, Outline]]:
    centres = _CIRCLE[:: 32 // count]
    return [(0, _ellipse(500 + (x * distance >> 16), 500 + (y * distance >> 16), radius, radius)) for x, y in centres]


_CRESCENT = (*_ellipse(480, 500, 440, 440, 5, 28), *reversed(_ellipse(650, 500, 350, 380, 7, 26)))
_STAR = (
    (500, 40), (610, 350), (940, 358), (678, 558), (772, 875),
    (500, 688), (228, 875), (322, 558), (60, 358), (390, 350),
)  # fmt: skip

#: Class name to shape; the order of the names is the order of the labels.
SHAPES: dict[str, Shape] = {
    "balloon": Shape(
        (
            (1, ((490, 700), (510, 700), (540, 820), (515, 990), (495, 990), (515, 820))),
            (0, ((440, 740), (560, 740), (500, 640))),
            (0, _ellipse(500, 370, 300, 350)),
            (2, _ellipse(400, 240, 70, 100)),
        ),
        (
            ((206, 40, 48), (90, 70, 60), (244, 160, 160)),
            ((38, 92, 200), (70, 70, 80), (160, 196, 244)),
            ((236, 120, 30), (90, 70, 60), (252, 206, 150)),
            ((170, 60, 170), (70, 60, 70), (226, 176, 226)),
        ),
    ),
    "boat": Shape(
        (
            (1, _box(480, 60, 510, 700)),
            (2, ((525, 90), (860, 620), (525, 620))),
            (2, ((465, 150), (465, 620), (230, 620))),
            (0, ((60, 680), (940, 680), (780, 900), (220, 900))),
            (1, ((60, 680), (940, 680), (915, 720), (88, 720))),
        ),
        (
            ((150, 50, 40), (80, 56, 40), (240, 238, 228)),
            ((36, 66, 120), (90, 70, 50), (246, 244, 238)),
            ((60, 110, 90), (84, 60, 44), (238, 226, 204)),
        ),
    ),
    "cactus": Shape(
        (
            (0, _box(210, 520, 560, 610)),
            (0, _pill(180, 300, 290, 600)),
            (0, _box(480, 620, 800, 710)),
            (0, _pill(710, 380, 820, 700)),
            (0, _pill(400, 60, 600, 980)),
            (1, _box(455, 170, 472, 960)),
            (1, _box(525, 170, 542, 960)),
            (2, _ellipse(500, 70, 60, 50)),
        ),
        (((70, 138, 66), (44, 100, 48), (230, 90, 140)), ((96, 150, 84), (62, 112, 60), (240, 200, 70))),
    ),
    "fish": Shape(
        (
            (1, ((690, 500), (960, 250), (900, 500), (960, 750))),
            (1, ((380, 330), (560, 130), (640, 340))),
            (1, ((430, 670), (520, 840), (600, 660))),
            (0, _ellipse(430, 500, 370, 220)),
            (2, ((330, 300), (390, 285), (430, 500), (390, 715), (330, 700), (370, 500))),
            (2, ((500, 290), (550, 305), (590, 500), (550, 695), (500, 710), (540, 500))),
            (3, _ellipse(205, 440, 55, 55)),
            (4, _ellipse(198, 440, 28, 28)),
        ),
        (
            ((240, 124, 36), (222, 96, 28), (248, 240, 226), (250, 250, 246), (20, 20, 26)),
            ((60, 120, 180), (44, 92, 150), (236, 206, 80), (250, 250, 246), (20, 20, 26)),
            ((214, 190, 70), (190, 150, 50), (60, 70, 90), (250, 250, 246), (20, 20, 26)),
        ),
    ),
    "flower": Shape(
        ((0, _ellipse(500, 500, 200, 200)), *_petals(8, 290, 150), (1, _ellipse(500, 500, 165, 165))),
        (
            ((232, 96, 156), (244, 204, 60)),
            ((240, 236, 232), (240, 190, 40)),
            ((150, 96, 206), (246, 214, 90)),
            ((222, 60, 80), (70, 46, 40)),
        ),
    ),
    "house": Shape(
        (
            (0, _box(140, 450, 860, 950)),
            (1, _box(660, 120, 760, 400)),
            (1, ((50, 470), (500, 90), (950, 470))),
            (2, _box(430, 640, 580, 950)),
            (3, _box(220, 560, 360, 720)),
            (3, _box(650, 560, 790, 720)),
            (2, _box(283, 560, 297, 720)),
            (2, _box(713, 560, 727, 720)),
        ),
        (
            ((226, 212, 184), (160, 66, 50), (96, 62, 44), (150, 190, 214)),
            ((190, 110, 84), (84, 80, 84), (240, 236, 226), (110, 140, 160)),
            ((236, 232, 224), (70, 80, 100), (50, 84, 120), (246, 214, 120)),
        ),
    ),
    "moon": Shape(
        (
            (0, _CRESCENT),
            (1, _ellipse(190, 420, 45, 45)),
            (1, _ellipse(250, 640, 60, 60)),
            (1, _ellipse(330, 250, 40, 40)),
        ),
        (((240, 232, 196), (210, 200, 160)), ((226, 230, 236), (190, 196, 206)), ((246, 220, 140), (220, 190, 110))),
    ),
    "mushroom": Shape(
        (
            (1, ((410, 480), (590, 480), (640, 940), (360, 940))),
            (2, ((330, 520), (670, 520), (600, 580), (400, 580))),
            (0, (*_ellipse(500, 520, 430, 430, 16, 32), (930, 520))),
            (3, _ellipse(330, 330, 70, 60)),
            (3, _ellipse(560, 230, 80, 65)),
            (3, _ellipse(720, 420, 65, 55)),
            (3, _ellipse(480, 440, 50, 40)),
        ),
        (
            ((196, 36, 36), (234, 222, 200), (206, 190, 166), (248, 244, 236)),
            ((150, 90, 50), (226, 206, 176), (190, 166, 136), (206, 160, 110)),
        ),
    ),
    "star": Shape(
        ((0, _STAR), (1, tuple((500 + (x - 500) * 5 // 9, 490 + (y - 490) * 5 // 9) for x, y in _STAR))),
        (((240, 196, 40), (250, 226, 120)), ((246, 220, 90), (222, 160, 30)), ((214, 60, 50), (246, 206, 70))),
    ),
    "tree": Shape(
        (
            (1, _box(450, 800, 550, 980)),
            (0, ((500, 420), (880, 830), (120, 830))),
            (0, ((500, 220), (800, 600), (200, 600))),
            (0, ((500, 30), (710, 370), (290, 370))),
        ),
        (((36, 92, 56), (104, 72, 48)), ((58, 112, 60), (90, 64, 44)), ((30, 80, 70), (110, 80, 56))),
    ),
}
