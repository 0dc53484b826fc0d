"""The checks by subject; `@check` makes one, and amd_ctk.doctor.run lists the modules."""
