"""The JSON documents of the commands as typed structures: `attncli.documents.schema` finds them by their modules.

Each module has ``FORMS``: a command's name to its `Form`. What a key means stands in its structure's docstring, or
beside its type where several structures have the key. Annotations are no strings here: Python 3.11 would not see
which keys need not be there.
"""
