"""A plan as Kubernetes objects, for one namespace of a cluster.

    manifests   a target's objects, file by file: where every other module is called
    engine      a variant: Deployment, or LeaderWorkerSet where a replica spans several hosts
    pod         the pod of an engine: containers, volumes, nodes, and who it runs as
    router      our router: Deployment, its configuration, its budget of disruptions, its Service
    network     how engines are found, and who reaches them
    names       names and labels of everything
    objects     the kinds that are used;  pods: what pods are made of;  document: their YAML
    custom      the kinds that others define, and those that scale
    llm_d       llm-d's router: pools and routes;  picker: who chooses in a pool
    sidecar     what prefill and decode apart add to a pod
    autoscale   replicas by rule;  monitoring: what Prometheus reads and watches
    kustomize, helm   the two formats: the same objects, in files

Called by `render.targets`. Pure: asks no cluster, and writes no secret, only the names of some.
"""
