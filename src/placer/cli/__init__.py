"""The command line: one module per verb, imported only when the verb is used."""
