"""All callbacks of one run, driven by a loop: a trainer, session hooks or the plain loop."""
