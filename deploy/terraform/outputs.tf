output "http_address" {
  description = "Where programs ask, by POST /v1/check."
  value       = "http://${var.name}-headgate.${var.namespace}.svc:8080"
}

output "grpc_address" {
  description = "Where Envoy and other clients that balance by themselves ask: it names every pod."
  value       = "${var.name}-headgate-headless.${var.namespace}.svc:8081"
}
