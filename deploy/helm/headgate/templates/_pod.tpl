{{/* A volume of one key of a secret: list of the volume's name, the secret, the key, the file. */}}
{{- define "headgate.secretVolume" -}}
- name: {{ index . 0 }}
  secret:
    secretName: {{ index . 1 }}
    defaultMode: 0440
    items:
      - {key: {{ index . 2 | quote }}, path: {{ index . 3 }}}
{{- end }}

{{- define "headgate.mount" -}}
- {name: {{ . }}, mountPath: /etc/headgate/{{ . }}, readOnly: true}
{{- end }}

{{/* An environment variable from a key of a secret. */}}
{{- define "headgate.secretVariable" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef: {name: {{ index . 1 }}, key: {{ index . 2 | quote }}}
{{- end }}

{{/* Volumes of every pod. */}}
{{- define "headgate.volumes" -}}
- name: state
  emptyDir: {sizeLimit: {{ .Values.stateSize }}}
{{- if .Values.existingRules }}
- name: rules
  configMap: {name: {{ .Values.existingRules }}}
{{- else if .Values.rules }}
- name: rules
  configMap: {name: {{ include "headgate.fullname" . }}-rules}
{{- end }}
{{- with .Values.store.passwordSecret }}
{{- if .name }}
{{ include "headgate.secretVolume" (list "store" .name .key "password") }}
{{- end }}
{{- end }}
{{- with .Values.storesSecret }}
{{- if .name }}
{{ include "headgate.secretVolume" (list "stores" .name .key "stores.yaml") }}
{{- end }}
{{- end }}
{{- with .Values.hashKeySecret }}
{{- if .name }}
{{ include "headgate.secretVolume" (list "hash" .name .key "hash.key") }}
{{- end }}
{{- end }}
{{- with .Values.usageKeySecret }}
{{- if .name }}
{{ include "headgate.secretVolume" (list "usage" .name .key "usage.key") }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "headgate.mounts" -}}
{{ include "headgate.mount" "settings" }}
- {name: state, mountPath: /var/lib/headgate}
{{- if or .Values.rules .Values.existingRules }}
{{ include "headgate.mount" "rules" }}
{{- end }}
{{- if .Values.store.passwordSecret.name }}
{{ include "headgate.mount" "store" }}
{{- end }}
{{- if .Values.storesSecret.name }}
{{ include "headgate.mount" "stores" }}
{{- end }}
{{- if .Values.hashKeySecret.name }}
{{ include "headgate.mount" "hash" }}
{{- end }}
{{- if .Values.usageKeySecret.name }}
{{ include "headgate.mount" "usage" }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* How much memory Go may use: what the container may, unless env says it. A variable that stands twice
is refused by some ways to apply a manifest. */}}
{{- define "headgate.memoryVariable" -}}
{{- $given := false -}}
{{- range .Values.env }}{{ if eq (toString .name) "GOMEMLIMIT" }}{{ $given = true }}{{ end }}{{ end -}}
{{- if not $given -}}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef: {resource: limits.memory}
{{- end -}}
{{- end }}

{{/* The store and the database, where a secret has the whole URL. */}}
{{- define "headgate.storeVariable" -}}
{{- with .Values.store.existingSecret -}}
{{- if .name -}}
{{ include "headgate.secretVariable" (list "HEADGATE_STORE" .name .key) }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "headgate.tenantsVariable" -}}
{{- with .Values.tenants.existingSecret -}}
{{- if .name -}}
{{ include "headgate.secretVariable" (list "HEADGATE_TENANTS" .name .key) }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where and as whom every pod runs. */}}
{{- define "headgate.podFields" -}}
serviceAccountName: {{ include "headgate.serviceAccountName" . }}
# Headgate never asks Kubernetes for anything.
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- range $name, $value := pick .Values "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with $value }}
{{ $name }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraInitContainers }}
initContainers: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "headgate.containerFields" -}}
image: {{ include "headgate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- range $name, $value := pick .Values "securityContext" "lifecycle" "startupProbe" "livenessProbe" "readinessProbe" "envFrom" }}
{{- with $value }}
{{ $name }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
