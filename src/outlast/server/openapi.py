"""The OpenAPI document of `/api/v1`, made from the rows that answer it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..store.messages import Problem
from .api import OPERATIONS, Operation

REF = "#/components/schemas/{name}"
# What any operation may answer, by its status; each is a Problem.
PROBLEMS = {
    400: "the request is not what the operation takes, or cannot be",
    401: "a token is needed, or the one that was sent is not good",
    403: "the token's role does not allow this",
    404: "there is no such thing",
    408: "the request did not come to its end in time",
    409: "the state of the task does not allow this, or a key is taken",
    413: "the request is too large",
    415: "the body is not JSON",
    503: "the store does not answer, or too many requests wait",
}


def document(base: str, version: str) -> dict[str, Any]:
    """OpenAPI 3.1, as plain values."""
    types = [Problem, *(operation.takes for operation in OPERATIONS.values())]
    _, components = msgspec.json.schema_components(types, ref_template=REF)
    paths: dict[str, Any] = {}
    for name, operation in OPERATIONS.items():
        paths.setdefault(base + operation.path, {})[operation.method.lower()] = _described(
            name, operation, components
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Outlast", "version": version or "0"},
        "paths": paths,
        "components": {
            "schemas": {"Problem": components["Problem"]},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _described(name: str, operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    schema = components[operation.takes.__name__]
    properties = dict(schema.get("properties", {}))
    required = set(schema.get("required", ()))
    in_path = re.findall(r"{(\w+)}", operation.path)
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": properties.pop(each)}
        for each in in_path
    ]
    told: dict[str, Any] = {
        "operationId": name,
        "summary": operation.says,
        "responses": _responses(),
    }
    if operation.verb == "submit":
        told["responses"]["200"]["links"] = _links()
    if operation.method == "GET":
        parameters += [
            {"name": each, "in": "query", "required": each in required, "schema": properties[each]}
            for each in properties
        ]
    else:
        body = {
            "type": "object",
            "properties": properties,
            "required": sorted(required - set(in_path)),
            "additionalProperties": False,
        }
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return {**told, "parameters": parameters}


def _links() -> dict[str, Any]:
    """What can be done with a task that was submitted."""
    return {
        name: {"operationId": name, "parameters": {"task": "$response.body#/id"}}
        for name, each in OPERATIONS.items()
        if "{task}" in each.path
    }


def _responses() -> dict[str, Any]:
    found: dict[str, Any] = {
        "200": {
            "description": "what was asked for",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    }
    reference = {"schema": {"$ref": REF.format(name="Problem")}}
    for status, says in PROBLEMS.items():
        found[str(status)] = {"description": says, "content": {"application/json": reference}}
    return found
