output "http_address" {
  description = "Where programs ask, by POST /v1/check."
  value       = "http://${local.fullname}.${var.namespace}.svc:8080"
}

output "grpc_address" {
  description = "Where Envoy and other clients that balance by themselves ask: it names every pod."
  value       = "${local.fullname}-headless.${var.namespace}.svc:8081"
}
