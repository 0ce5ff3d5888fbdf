"""The names of the augmentations. Without torch, so that settings can be checked before it is imported."""

from __future__ import annotations

from tcsl.errors import InputError
from tcsl.registry import unknown

AUGMENTATIONS: tuple[str, ...] = ("none", "crop", "resized_crop", "flip", "jitter")  # in the order they are applied


def parts(name: str) -> list[str]:
    """Return the parts of a name.

    >>> parts("resized_crop+flip")
    ['resized_crop', 'flip']
    """
    return name.split("+")


def check_augment(name: str) -> str:
    """Return the name with its parts in the order they are applied.

    Refused is what is not `none` or known names joined with +, each once and one crop at most.

    >>> check_augment("jitter+flip+resized_crop")
    'resized_crop+flip+jitter'
    >>> check_augment("flip+jiter")
    Traceback (most recent call last):
    tcsl.errors.InputError: unknown augmentation 'jiter'; did you mean 'jitter'? Known: crop, flip, ...
    """
    given = parts(name)
    for part in given:
        if part not in AUGMENTATIONS:
            raise unknown("augmentation", part, AUGMENTATIONS)
        if given.count(part) > 1:
            raise InputError(f"augmentation {name!r} has {part!r} {given.count(part)} times: name it once")
    if "none" in given and len(given) > 1:
        raise InputError(f"augmentation 'none' stands alone, got {name!r}: leave out 'none', or all others")
    if {"crop", "resized_crop"} <= set(given):
        raise InputError(f"augmentation {name!r} crops twice: choose crop or resized_crop")
    return "+".join(sorted(given, key=AUGMENTATIONS.index))
