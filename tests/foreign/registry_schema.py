"""Validates server.json files against the registry's JSON schema, which the package `skillsaw` has.

usage: registry_schema.py valid|invalid FILE ...
"""

import json
import sys
from importlib.resources import files

from jsonschema import Draft7Validator

SCHEMA = "schemas/mcp_registry/v2025_12_11/server.schema.json"

expected, paths = sys.argv[1], sys.argv[2:]
schema = json.loads(files("skillsaw").joinpath(SCHEMA).read_text("utf-8"))
validator = Draft7Validator(schema)
failed = not paths
for path in paths:
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    if document["$schema"] != schema["$id"]:
        problems.append(f"$schema is not {schema['$id']}")
    print(path, problems or "valid")
    failed |= bool(problems) != (expected == "invalid")
sys.exit(1 if failed else 0)
