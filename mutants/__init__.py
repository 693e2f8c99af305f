"""Shows how much of the pure cores the tests hold: each small change to their code must fail one."""
