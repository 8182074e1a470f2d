"""A stand-in for NVIDIA's dcgm-exporter: a real HTTP server over GPUs whose truth is known.

    page.py      what a page of a version of the exporter looks like
    server.py    the server, and what can go wrong with it
    __main__.py  the same as a process:  python -m tests.standins.exporter node.json --port 9400

Made after the exporter's own template (internal/pkg/rendermetrics), its counters' lists (etc/*.csv of several
versions) and pages in its public reports. A value covers the collection interval that ended at the latest
multiple of the interval since boot; the page carries no times.
"""
