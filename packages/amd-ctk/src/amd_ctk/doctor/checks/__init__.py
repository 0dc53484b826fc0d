"""The checks, by what they are about; `@check` makes one, and amd_ctk.doctor.run lists the modules."""
