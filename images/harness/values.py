"""What calls came to: `out[3]` is the value that run 3 ended with."""

from __future__ import annotations

from typing import Any

MAX_VALUES = 5  # what is kept takes the code's memory


class Values(dict[int, Any]):
    """The values of the last runs that had one, by the number of the run."""

    def add(self, number: int, value: Any) -> None:
        if value is self:
            return
        self[number] = value
        while len(self) > MAX_VALUES:
            del self[next(iter(self))]

    def __missing__(self, number: Any) -> Any:
        raise KeyError(f"{number!r}: {self!r}")

    def __repr__(self) -> str:
        return f"<out: the values of runs {', '.join(map(str, self)) or 'to come'}>"
