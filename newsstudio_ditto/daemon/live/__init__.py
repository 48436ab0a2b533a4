"""Speech that arrives while it is spoken becomes video while it is made. No web framework in here."""
