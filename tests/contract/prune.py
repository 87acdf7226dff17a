"""Makes the two descriptions beside this file from what GitHub publishes: github-openapi.json.xz, github-schema.graphql.xz.

    npm pack @octokit/openapi@23.0.2 @octokit/graphql-schema@15.26.1
    python tests/contract/prune.py octokit-openapi-23.0.2.tgz octokit-graphql-schema-15.26.1.tgz

It takes away and never changes: operations and types that a bot on one repository has no use for, prose and examples. The same
packages give the same text. Not run by tests: a new version is a change that a person looks at (PROVENANCE.md).
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import graphql
from graphql.language import ast
from openapi_core import OpenAPI

HERE = Path(__file__).resolve().parent
OPENAPI, SCHEMA = HERE / "github-openapi.json.xz", HERE / "github-schema.graphql.xz"
INTEGRITY = {  # npm view <package>@<version> dist.integrity
    "octokit-openapi-23.0.2.tgz": "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    "octokit-graphql-schema-15.26.1.tgz": (
        "RFDC2MpRBd4AxSRvUeBIVeBU7ojN/SxDfALUd7iVYOSeEK3gZaqR2MGOysj4Zh2xj2RY5fQAUT+Oqq7hWTraMA=="
    ),
}

# What is kept of REST: whole paths, and what stands under one part of a repository.
PATHS = (
    "/rate_limit", "/user", "/users/{username}", "/app", "/app/installations/{installation_id}/access_tokens",
    "/installation/repositories", "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/installation",
)  # fmt: skip
PARTS = (
    "assignees", "branches", "check-runs", "check-suites", "collaborators", "comments", "commits", "compare", "contents",
    "dispatches", "environments", "git", "issues", "labels", "merges", "pulls", "readme", "rules", "rulesets", "statuses",
)  # fmt: skip
ACTIONS = ("artifacts", "jobs", "permissions", "runners", "runs", "secrets", "variables", "workflows")
KEPT = re.compile(rf"/repos/{{owner}}/{{repo}}/({'|'.join(PARTS)}|actions/({'|'.join(ACTIONS)}))(/.*)?")
VERBS = ("get", "put", "post", "patch", "delete")
PROSE = {"description", "example", "examples", "summary", "title", "tags", "deprecated", "default"}
SILENT = {"responses": {"description": ""}}  # the format wants one
NAMED = {"properties", "schemas", "parameters", "responses", "headers", "patternProperties"}  # under these, keys are names

# What is kept of GraphQL: these fields of the two roots, and these types with what they need.
QUERIES = {"node", "nodes", "rateLimit", "repository", "viewer"}
MUTATIONS = {
    "addComment", "addLabelsToLabelable", "addReaction", "closePullRequest", "createCommitOnBranch", "createRef", "deleteRef",
    "disablePullRequestAutoMerge", "enablePullRequestAutoMerge", "enqueuePullRequest", "dequeuePullRequest", "mergePullRequest",
    "minimizeComment", "removeLabelsFromLabelable", "revertPullRequest", "updateIssueComment", "updatePullRequest",
    "updatePullRequestBranch", "updateRef",
}  # fmt: skip
TYPES = {
    "Actor", "AutoMergeRequest", "Blob", "Bot", "BranchProtectionRule", "CheckAnnotation", "CheckRun", "CheckSuite", "Closable",
    "Comment", "Commit", "GitActor", "GitObject", "Issue", "IssueComment", "Label", "Labelable", "Lockable", "Mannequin",
    "MergeQueue", "MergeQueueEntry", "Minimizable", "Node", "Organization", "PageInfo", "PullRequest", "PullRequestChangedFile",
    "PullRequestCommit", "PullRequestReview", "RateLimit", "Reactable", "Reaction", "Ref", "Repository", "RepositoryOwner",
    "RequirableByPullRequest", "Status", "StatusCheckRollup", "StatusCheckRollupContext", "StatusContext", "Tree",
    "UniformResourceLocatable", "Updatable", "UpdatableComment", "User",
}  # fmt: skip


def openapi(whole: dict[str, Any]) -> dict[str, Any]:
    """The part of GitHub's OpenAPI description that we keep, with every component it refers to."""
    paths = {
        path: {verb: _operation(item[verb]) for verb in VERBS if verb in item}
        for path, item in whole["paths"].items()
        if path in PATHS or KEPT.fullmatch(path)
    }
    found: dict[str, dict[str, Any]] = {}
    todo = list(_refs(paths))
    while todo:
        _, _, kind, name = todo.pop().split("/")
        if name not in found.setdefault(kind, {}):
            found[kind][name] = SILENT.get(kind, {}) | _bare(whole["components"][kind][name])
            todo += _refs(found[kind][name])
    info = {"title": whole["info"]["title"], "version": whole["info"]["version"], "license": whole["info"]["license"]}
    return {"openapi": whole["openapi"], "info": info, "paths": paths, "components": found}


def _operation(item: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: _bare(item[key]) for key in ("parameters", "requestBody") if key in item}
    answers = {
        status: answer if "$ref" in answer else SILENT["responses"] | _bare(answer)
        for status, answer in item["responses"].items()
    }
    url = item["externalDocs"]["url"]
    return {"operationId": item["operationId"], "externalDocs": {"url": url}, **kept, "responses": answers}


def _bare(node: Any, names: bool = False) -> Any:
    """Without prose. `names` says that its keys are names that somebody gave, not words of the format."""
    if isinstance(node, list):
        return [_bare(x) for x in node]
    if not isinstance(node, dict):
        return node
    return {k: _bare(v, k in NAMED and not names) for k, v in node.items() if names or not _is_prose(k)}


def _is_prose(key: str) -> bool:
    return key in PROSE or (key.startswith("x-") and key != "x-multi-segment")


def _refs(node: Any) -> Iterator[str]:
    """Every `$ref` in it, in the order of the text."""
    if isinstance(node, dict):
        yield from ([node["$ref"]] if isinstance(node.get("$ref"), str) else [])
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _refs(child)


def schema(text: str) -> str:
    """The part of GitHub's GraphQL schema that we keep, valid in itself."""
    document = graphql.parse(text, no_location=True)
    every = {d.name.value: d for d in document.definitions if isinstance(d, ast.TypeDefinitionNode)}
    leaves = (ast.ScalarTypeDefinitionNode, ast.EnumTypeDefinitionNode)
    payloads = {_named(f.type) for f in every["Mutation"].fields if f.name.value in MUTATIONS}  # type: ignore[attr-defined]
    kept = (
        TYPES
        | payloads
        | set(graphql.specified_scalar_types)
        | {"Query", "Mutation"}
        | {n + end for n in TYPES for end in ("Connection", "Edge")}
    )
    kept |= {name for name, d in every.items() if isinstance(d, leaves)}
    for name in kept & set(every):
        _narrow(every[name], kept)
    found, todo = {}, ["Query", "Mutation"]
    while todo:
        if (name := todo.pop()) in every and name not in found:
            found[name] = every[name]
            todo += [*_used(every[name]), *(other for other in kept & set(every) if name in _parents(every[other]))]
    for definition in found.values():
        _silence(definition)
    reduced = ast.DocumentNode(definitions=tuple(found[name] for name in sorted(found)))
    printed = graphql.print_ast(reduced) + "\n"
    graphql.build_schema(printed)  # raises what is not valid
    return printed


def _narrow(node: Any, kept: set[str]) -> None:
    """Takes out the fields, interfaces and members whose type is not kept."""
    roots = {"Query": QUERIES, "Mutation": MUTATIONS}.get(node.name.value)
    if hasattr(node, "fields") and not isinstance(node, ast.InputObjectTypeDefinitionNode):
        fields = [f for f in node.fields if _named(f.type) in kept and (roots is None or f.name.value in roots)]
        node.fields, node.interfaces = tuple(fields), tuple(i for i in node.interfaces if i.name.value in kept)
    if isinstance(node, ast.UnionTypeDefinitionNode):
        node.types = tuple(t for t in node.types if t.name.value in kept)


def _named(node: Any) -> str:
    while not isinstance(node, ast.NamedTypeNode):
        node = node.type
    return node.name.value


def _parents(node: Any) -> set[str]:
    return {i.name.value for i in getattr(node, "interfaces", ())}


def _used(node: Any) -> Iterator[str]:
    """The names of the types that a definition refers to."""
    yield from (t.name.value for t in (*getattr(node, "interfaces", ()), *getattr(node, "types", ())))
    for field in getattr(node, "fields", ()):
        yield from (_named(field.type), *(_named(a.type) for a in getattr(field, "arguments", ())))


def _silence(node: Any) -> None:
    for part in (node, *getattr(node, "fields", ()), *getattr(node, "values", ())):
        part.description, part.directives = None, ()
        for argument in getattr(part, "arguments", ()):
            argument.description, argument.directives = None, ()


def _member(tarball: Path, name: str) -> str:
    """One file of an npm package. Exits when the package is not, byte for byte, the one that we name."""
    digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if digest != INTEGRITY.get(tarball.name):
        sys.exit(f"{tarball.name} is not one of {', '.join(INTEGRITY)} as npm published them; get it with the commands above")
    with tarfile.open(tarball) as package:
        member = package.extractfile(f"package/{name}")
        assert member is not None, f"{tarball.name} has no {name}"
        return member.read().decode("utf-8")


def _write(path: Path, text: str) -> None:
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.name}: {len(text):,} characters in {path.stat().st_size:,} bytes")


def main(packages: Sequence[str]) -> None:
    """Both files, from the two packages; without names, from those in this folder."""
    rest, graph = (Path(name) for name in packages or INTEGRITY)
    pruned = openapi(json.loads(_member(rest, "generated/api.github.com.json")))
    OpenAPI.from_dict(pruned)  # raises what is not valid
    _write(OPENAPI, json.dumps(pruned, sort_keys=True, separators=(",", ":")))
    _write(SCHEMA, schema(_member(graph, "schema.graphql")))


if __name__ == "__main__":
    main(sys.argv[1:])
