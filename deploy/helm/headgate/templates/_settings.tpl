{{/* Settings of every pod. */}}
{{- define "headgate.settings.common" -}}
ops-addr: ""
health-addr: ":8086"
metrics-addr: ":9102"
log-format: json
{{- if or .Values.rules .Values.existingRules }}
rules: /etc/headgate/rules
{{- end }}
{{- if .Values.tenants.tiers }}
tiers: /etc/headgate/settings/tiers.yaml
{{- end }}
{{- if .Values.hashKeySecret.name }}
admin-hash-key: /etc/headgate/hash/hash.key
audit-hash-key: /etc/headgate/hash/hash.key
{{- end }}
{{- if .Values.usageKeySecret.name }}
usage-key: /etc/headgate/usage/usage.key
{{- end }}
{{- with include "headgate.store" . }}
store: {{ . | quote }}
{{- end }}
{{- if .Values.storesSecret.name }}
stores: /etc/headgate/stores/stores.yaml
{{- end }}
{{- if .Values.regions.file }}
regions: /etc/headgate/settings/regions.yaml
region: {{ .Values.regions.name | quote }}
{{- end }}
{{- end }}

{{/* The URL of the store, unless it comes from a secret whole. */}}
{{- define "headgate.store" -}}
{{- with .Values.store -}}
{{- if and .url .existingSecret.name }}{{ fail "store.url and store.existingSecret name two stores: leave one out" }}{{ end -}}
{{- if and .passwordSecret.name (not .url) }}{{ fail "store.passwordSecret needs store.url" }}{{ end -}}
{{- if .passwordSecret.name -}}
{{ .url }}{{ if contains "?" .url }}&{{ else }}?{{ end }}password_file=/etc/headgate/store/password
{{- else -}}
{{ .url }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "headgate.settings.decide" -}}
{{ include "headgate.settings.common" . }}
http-addr: {{ ternary ":8080" "" .Values.service.http.enabled | quote }}
grpc-addr: {{ ternary ":8081" "" .Values.service.grpc.enabled | quote }}
{{- if .Values.service.redis.enabled }}
redis-addr: ":6380"
{{- end }}
{{- if .Values.service.auth.enabled }}
auth-addr: ":9091"
{{- end }}
{{- if and .Values.usageKeySecret.name (not .Values.service.usage.enabled) }}
usage-addr: ""
{{- end }}
{{- if .Values.identity }}
identity: /etc/headgate/settings/identity.yaml
{{- end }}
state-dir: /var/lib/headgate
{{- if .Values.admin.enabled }}
roles: decide
{{- if .Values.admin.snapshots.enabled }}
admin-urls: {{ printf "https://%s-admin.%s.svc:8082" (include "headgate.fullname" .) .Release.Namespace }}
admin-urls-ca: /etc/headgate/follow/ca.pem
admin-urls-token: /etc/headgate/follow/token
snapshot-keys: /etc/headgate/follow/verify.pem
tenants-dir: /var/lib/headgate
{{- end }}
{{- end }}
{{- if .Values.callersSecret.name }}
callers: /etc/headgate/callers/callers.yaml
{{- end }}
{{- if .Values.tls.existingSecret }}
tls-cert: /etc/headgate/tls/tls.crt
tls-key: /etc/headgate/tls/tls.key
{{- end }}
{{- if .Values.tls.clientCASecret }}
client-ca: /etc/headgate/client-ca/ca.crt
{{- end }}
{{- end }}

{{- define "headgate.settings.admin" -}}
{{ include "headgate.settings.common" . }}
http-addr: ""
grpc-addr: ""
roles: {{ ternary "admin,dashboard" "admin" .Values.admin.dashboard }}
admin-addr: ":8082"
admin-tokens: /etc/headgate/tokens/tokens.yaml
{{- if .Values.admin.dashboard }}
dashboard-addr: ":6071"
{{- end }}
{{- if .Values.admin.tlsSecret }}
admin-tls-cert: /etc/headgate/admin-tls/tls.crt
admin-tls-key: /etc/headgate/admin-tls/tls.key
{{- if .Values.admin.dashboard }}
dashboard-tls-cert: /etc/headgate/admin-tls/tls.crt
dashboard-tls-key: /etc/headgate/admin-tls/tls.key
{{- end }}
{{- end }}
{{- if .Values.admin.snapshots.enabled }}
tenants-dir: /var/lib/headgate
snapshot-sign-key: /etc/headgate/sign/sign.pem
{{- end }}
{{- end }}

{{/* The file of settings: list of the chart's own, as text, and of those of the values, which go before
them. What is empty there, such as state-dir: "", is said on purpose, so it is no merge. */}}
{{- define "headgate.settings.file" -}}
{{- $all := index . 0 | fromYaml -}}
{{- range $name, $value := index . 1 }}{{ $_ := set $all $name $value }}{{ end -}}
{{ toYaml $all }}
{{- end }}

{{/* What must be said before anything is made of it. */}}
{{- define "headgate.refusals" -}}
{{- with .Values -}}
{{- if and .rules .existingRules }}{{ fail "rules and existingRules name two sets of rules: leave one out" }}{{ end -}}
{{- if not (or .service.http.enabled .service.grpc.enabled .service.redis.enabled .service.auth.enabled) }}{{ fail "service.http, service.grpc, service.redis and service.auth are all off: nobody could ask" }}{{ end -}}
{{- if and .service.auth.enabled (not (index .settings "auth-peers")) }}{{ fail "service.auth needs settings.auth-peers: the networks of the gateways, such as those of the pods of your cluster" }}{{ end -}}
{{- if and .service.usage.enabled (not .usageKeySecret.name) }}{{ fail "service.usage needs usageKeySecret.name: a secret with the keys of customers' tokens" }}{{ end -}}
{{- if and .storesSecret.name (not .store.url) (not .store.existingSecret.name) }}{{ fail "storesSecret needs store.url or store.existingSecret: beside counters in memory each pod would count for itself" }}{{ end -}}
{{- if and .regions.file (not .storesSecret.name) }}{{ fail "regions.file needs storesSecret.name: the stores of its regions stand in the file of stores" }}{{ end -}}
{{- if and .regions.file (not .regions.name) }}{{ fail "regions.file needs regions.name: which of them this release is in" }}{{ end -}}
{{- if and .regions.name (not .regions.file) }}{{ fail "regions.name needs regions.file" }}{{ end -}}
{{- if and .tls.clientCASecret (not .tls.existingSecret) }}{{ fail "tls.clientCASecret needs tls.existingSecret: without TLS nobody shows a certificate" }}{{ end -}}
{{- if and .admin.enabled (not .admin.tokensSecret.name) }}{{ fail "admin.enabled needs admin.tokensSecret.name: a secret with the file of tokens" }}{{ end -}}
{{- if and .tenants.tiers (not .tenants.existingSecret.name) }}{{ fail "tenants.tiers needs tenants.existingSecret.name: a secret with the URL of the database" }}{{ end -}}
{{- if .admin.snapshots.enabled -}}
{{- if not .admin.enabled }}{{ fail "admin.snapshots needs admin.enabled" }}{{ end -}}
{{- if not .tenants.existingSecret.name }}{{ fail "admin.snapshots needs tenants.existingSecret.name: accounts come from the database" }}{{ end -}}
{{- if not .admin.tlsSecret }}{{ fail "admin.snapshots needs admin.tlsSecret: pods ask the admin API by TLS" }}{{ end -}}
{{- if not (and .admin.snapshots.signKeySecret.name .admin.snapshots.followSecret.name) }}{{ fail "admin.snapshots needs signKeySecret.name and followSecret.name" }}{{ end -}}
{{- end -}}
{{- if and (not .store.url) (not .store.existingSecret.name) (or .autoscaling.enabled (gt (int .replicaCount) 1)) -}}
{{- fail "several pods and no store: each would count for itself. Name store.url, or set replicaCount to 1" -}}
{{- end -}}
{{- if not (or (kindIs "invalid" .podDisruptionBudget.minAvailable) (kindIs "invalid" .podDisruptionBudget.maxUnavailable)) }}{{ fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" }}{{ end -}}
{{- end -}}
{{- end }}
