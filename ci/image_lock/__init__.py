"""The locks of images: which digest each tag had when a registry was last asked.

    ci/generate --lock                 asks the registries; exit 1 where one did not answer
    python -m ci.image_lock --offline  asks nobody: names anew, digests as they were

    __main__   which images there are, and the files
    registry   one image's digest, by the registries' own API
    login      what `docker login` and the configuration of docker say of a registry

Written are llmd_ctl/profiles/images.lock.yaml, of what is rendered, and images/*/lock.yaml, of what
Containerfiles start from. A tag may hold something else tomorrow; what a lock says does not change.
"""
