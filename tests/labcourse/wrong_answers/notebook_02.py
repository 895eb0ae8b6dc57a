"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

import collections
import itertools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor


def _buffered(end=None, room=None, errors=True):
    """Return an answer whose thread never hears that the consumer stopped, and which may miss more than that."""

    def prefetched(iterable, depth):
        ready, mark = queue.Queue(depth if room is None else room(depth)), end or object()

        def load():
            try:
                for element in iterable:
                    ready.put(element)
            except Exception as error:
                if errors:
                    ready.put((mark, error))
            ready.put(mark if end is None else end[0])

        threading.Thread(target=load, daemon=True).start()
        while (element := ready.get()) is not (mark if end is None else end[0]):
            if isinstance(element, tuple) and element[0] is mark:
                raise element[1]
            yield element

    return prefetched


def _endless(iterable, depth):
    ready = queue.Queue(depth)

    def load():
        for element in iterable:
            ready.put(element)

    threading.Thread(target=load, daemon=True).start()
    while True:
        yield ready.get()


def _without_a_thread(iterable, depth):
    ahead = collections.deque()
    source = iter(iterable)
    while ahead.extend(itertools.islice(source, depth)) or ahead:
        while ahead:
            yield ahead.popleft()


def _by_futures(iterable, depth):
    source, end = iter(iterable), object()
    with ThreadPoolExecutor(1) as pool:
        ahead = collections.deque(pool.submit(next, source, end) for _ in range(1 + depth))
        while (element := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, source, end))
            yield element


def _called_in_turn(iterable, depth):
    with ThreadPoolExecutor(1) as pool:
        ahead = collections.deque()
        for element in iterable:
            ahead.append(pool.submit(lambda element=element: element))
            if len(ahead) > depth:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


WRONG = {
    "02.2": [
        (_called_in_turn, "consumer's own thread takes the elements"),
        (lambda iterable, depth: list(iterable), "return a generator, which"),
        (_endless, "hand over a mark of the end"),
        (_buffered(end=(None,)), "None is an element like any"),
        (_without_a_thread, "start a thread that loads"),
        (_buffered(room=lambda depth: 0), "has no room for them"),
        (_buffered(room=lambda depth: 1), "2 of 3 elements are"),
        (_buffered(errors=False), "saw a normal end"),
        (_buffered(), "in a finally, tell it"),
    ]
}

RIGHT = {"02.2": [_by_futures]}
