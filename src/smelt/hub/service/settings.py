"""What the service allows: sizes, counts and rates. Every number can be changed when the application is made."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Rate", "Settings"]


@dataclass(frozen=True)
class Rate:
    """A bucket of `burst` requests that fills again by `per_minute`."""

    burst: int
    per_minute: float


@dataclass(frozen=True)
class Settings:
    """The limits of one running service; bytes, pixels, counts, and rates per client."""

    title: str = "Smelt hub"
    submit: bool = True
    """Whether models may be sent in at all."""
    upload_bytes: int = 200_000_000
    """The body of a submission, counted while it arrives."""
    unpacked_bytes: int = 400_000_000
    """All files of a zip together, unpacked."""
    unpacked_ratio: int = 100
    """Unpacked over packed bytes of one file of a zip; weights hardly shrink, bombs do."""
    header_bytes: int = 8_000_000
    """The header of a safetensors file."""
    upload_files: int = 40
    pictures: int = 32
    picture_bytes: int = 10_000_000
    picture_pixels: int = 24_000_000
    request_pixels: int = 64_000_000
    """All pictures of one request together; they are decoded a few at a time."""
    body_bytes: int = 64_000_000
    """The body of any request that is not a submission."""
    classes: int = 1000
    class_letters: int = 200
    task_letters: int = 400
    """Of the domain and of the task's words."""
    workers: int = 2
    """Selections and predictions at one time."""
    submit_workers: int = 1
    """Submissions that are checked at one time, beside those."""
    connections: int = 256
    """Open at one time; one more is told to come back and closed."""
    stall_seconds: float = 30.0
    """A client whose turn it is, and from whom nothing comes for so long, is cut off."""
    hosts: tuple[str, ...] = ()
    """The names under which the service may be called (`Host`); any where none is given."""
    rates: dict[str, Rate] = field(
        default_factory=lambda: {
            "read": Rate(burst=600, per_minute=1200.0),
            "think": Rate(burst=20, per_minute=60.0),
            "submit": Rate(burst=5, per_minute=5.0),
        }
    )
    """`read`: pages and pictures; `think`: selections and predictions; `submit`: models."""
