"""The certificates that a router reads, under names of the place it runs in.

Used by renderers whose router does not see this machine's files. A plan has absolute paths; what
is returned has those that the place gives, and says which file each of them is. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from llmd_ctl.plan import EndpointTls, Plan, PlannedVariant


def moved(plan: Plan, folder: str) -> tuple[Plan, dict[str, str]]:
    """The plan with every certificate in `folder`, and the file that each name there stands for."""
    files: dict[str, str] = {}

    def at(name: str, path: str | None) -> str | None:
        if path is None:
            return None
        files[name] = path
        return f"{folder}/{name}"

    def endpoint(variant: PlannedVariant, name: str) -> PlannedVariant:
        tls = variant.endpoint_tls
        if tls is None:
            return variant
        there = EndpointTls(
            ca_file=at(f"{name}.ca.crt", tls.ca_file),
            cert_file=at(f"{name}.crt", tls.cert_file),
            key_file=at(f"{name}.key", tls.key_file),
            server_name=tls.server_name,
        )
        return replace(variant, endpoint_tls=there)

    tls = plan.router_tls
    if tls is not None:
        tls = replace(
            tls,
            cert_file=str(at("tls.crt", tls.cert_file)),
            key_file=str(at("tls.key", tls.key_file)),
            client_ca_file=at("clients.ca.crt", tls.client_ca_file),
        )
    models = tuple(
        replace(
            model,
            variants=tuple(
                endpoint(variant, f"endpoint-{i}-{j}") for j, variant in enumerate(model.variants)
            ),
        )
        for i, model in enumerate(plan.models)
    )
    return replace(plan, router_tls=tls, models=models), files
