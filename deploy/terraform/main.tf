# Headgate by its Helm chart, with the URLs of its store and of its database as secrets of
# Kubernetes. docs/cloud.md says what this makes and what not.

locals {
  # Whether a URL was given is no secret.
  has_store_url   = nonsensitive(var.store_url != "")
  has_tenants_url = nonsensitive(var.tenants_url != "")

  # As the chart names everything: a release whose name has headgate in it adds nothing to it.
  fullname = strcontains(var.name, "headgate") ? var.name : "${var.name}-headgate"

  store_secret   = local.has_store_url ? "${var.name}-headgate-store" : var.store_secret
  tenants_secret = local.has_tenants_url ? "${var.name}-headgate-tenants" : var.tenants_secret

  values = {
    rules        = var.rules
    settings     = var.settings
    replicaCount = var.pods.least
    autoscaling = {
      enabled     = var.pods.most > var.pods.least
      minReplicas = var.pods.least
      maxReplicas = var.pods.most
    }
    store   = { existingSecret = { name = local.store_secret } }
    tenants = { existingSecret = { name = local.tenants_secret }, tiers = var.tiers }
  }
}

resource "kubernetes_secret_v1" "store" {
  count = local.has_store_url ? 1 : 0

  metadata {
    name      = local.store_secret
    namespace = var.namespace
  }
  data = { url = var.store_url }
}

resource "kubernetes_secret_v1" "tenants" {
  count = local.has_tenants_url ? 1 : 0

  metadata {
    name      = local.tenants_secret
    namespace = var.namespace
  }
  data = { url = var.tenants_url }
}

resource "helm_release" "headgate" {
  name      = var.name
  namespace = var.namespace
  chart     = var.chart
  values    = concat([yamlencode(local.values)], var.values)

  # What is not ready in time is taken back, and the pods of before go on.
  atomic  = true
  timeout = var.timeout

  lifecycle {
    precondition {
      condition     = !(local.has_store_url && var.store_secret != "")
      error_message = "store_url and store_secret: leave one out."
    }
    precondition {
      condition     = !(local.has_tenants_url && var.tenants_secret != "")
      error_message = "tenants_url and tenants_secret: leave one out."
    }
    precondition {
      condition     = local.store_secret != "" || var.pods.most == 1
      error_message = "Several pods need a store: store_url or store_secret."
    }
  }

  depends_on = [kubernetes_secret_v1.store, kubernetes_secret_v1.tenants]
}
