from hypothesis import settings

# How long an example takes depends on what else the machine is doing; pytest-timeout catches what hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
