"""The program inside a sandbox: it runs an agent's code and talks frames.

The daemon sends these modules over the container's stdin; nothing of them is
in the image. The frames, their fields and their limits are specified in
pkg/sandbox/doc.go. Python 3.9 or later, standard library only.
"""
