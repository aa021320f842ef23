# Reads an OpenAPI document. Prints each success without an example, each problem without one, and
# each example that doesn't fit its schema or has members that the schema doesn't name.
import json
import sys

import jsonschema

document = json.load(sys.stdin)
schemas = document["components"]["schemas"]
# Files, pages, and streams without an end.
WITHOUT = {"application/vnd.apache.parquet", "application/zip", "text/html"}


def strict(schema, is_part=False, depth=0):
    """The schema with its references resolved, which allows no member that it doesn't name."""
    if isinstance(schema, list):
        return [strict(one, is_part, depth) for one in schema]
    if not isinstance(schema, dict) or depth > 60:
        return schema
    if "$ref" in schema:
        named = schemas[schema["$ref"].rsplit("/", 1)[1]]
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return strict(named | rest, is_part, depth + 1)
    made = {}
    for name, value in schema.items():
        if name in ("example", "examples", "default", "enum"):
            continue
        if name == "properties":
            made[name] = {one: strict(value[one], False, depth + 1) for one in value}
        else:
            parts = name in ("allOf", "oneOf", "anyOf")
            made[name] = strict(value, parts and (is_part or name == "allOf" or "properties" in schema), depth + 1)
    if "enum" in schema:
        made["enum"] = schema["enum"]
    names_members = "properties" in schema or "allOf" in schema
    if names_members and not is_part and "additionalProperties" not in schema:
        made["unevaluatedProperties"] = False
    return made


def values(content):
    if "example" in content:
        yield content["example"]
    for example in content.get("examples", {}).values():
        if "$ref" in example:
            example = document["components"]["examples"][example["$ref"].rsplit("/", 1)[1]]
        yield example["value"]


checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
for path, operations in document["paths"].items():
    for method, operation in operations.items():
        for status, response in operation["responses"].items():
            for media, content in response.get("content", {}).items():
                if media in WITHOUT:
                    continue
                name = f"{method.upper()} {path} {status} {media}"
                examples = list(values(content))
                if not examples:
                    print(f"{name}: no example")
                schema = strict(content.get("schema", {}))
                validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
                for example in examples:
                    for error in validator.iter_errors(example):
                        print(f"{name}: {error.json_path}: {error.message}"[:500])
