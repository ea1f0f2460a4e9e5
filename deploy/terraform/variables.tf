variable "name" {
  description = "Name of the release. Services are NAME-headgate and NAME-headgate-headless; with headgate in it, NAME and NAME-headless."
  type        = string
  default     = "limits"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,35}[a-z0-9])?$", var.name))
    error_message = "A name has up to 37 lower-case letters, digits and hyphens, begins with a letter, and does not end with a hyphen."
  }
}

variable "namespace" {
  description = "Namespace of Kubernetes, which is there already."
  type        = string
}

variable "chart" {
  description = "The chart: the path of headgate-VERSION.tgz, its address in a registry (oci://...), or deploy/helm/headgate of a checkout."
  type        = string
}

variable "rules" {
  description = "Rule files: the name of each, with its text, as in { \"shop.yaml\" = file(\"shop.yaml\") }."
  type        = map(string)
  default     = {}
}

variable "store_url" {
  description = "URL of the store with its password, as in rediss://headgate:PASSWORD@redis:6380/0. It becomes a secret of Kubernetes, and stands in the state of Terraform."
  type        = string
  default     = ""
  sensitive   = true
}

variable "store_secret" {
  description = "In place of store_url: name of a secret that is there already and has the URL under the key url, so that it is not in the state."
  type        = string
  default     = ""
}

variable "tenants_url" {
  description = "URL of the database of accounts, postgres://... It becomes a secret of Kubernetes, and stands in the state of Terraform. Empty: no tenants."
  type        = string
  default     = ""
  sensitive   = true
}

variable "tenants_secret" {
  description = "In place of tenants_url: name of a secret that is there already and has the URL under the key url."
  type        = string
  default     = ""
}

variable "tiers" {
  description = "Text of the file of tiers. It needs a database of accounts."
  type        = string
  default     = ""
}

variable "pods" {
  description = "How many pods decide. Where most is larger than least, Kubernetes adds pods by their use of processors."
  type = object({
    least = optional(number, 2)
    most  = optional(number, 2)
  })
  default = {}

  validation {
    condition     = var.pods.least >= 1 && var.pods.most >= var.pods.least
    error_message = "At least one pod, and most is no less than least."
  }
}

variable "settings" {
  description = "Other settings of the pods that decide, by the names of flags without the dashes (headgate config sample)."
  type        = map(string)
  default     = {}
}

variable "values" {
  description = "Further values of the chart, as YAML texts. What stands in a later one counts."
  type        = list(string)
  default     = []
}

variable "timeout" {
  description = "How long to wait until the pods are ready, in seconds."
  type        = number
  default     = 300
}
