{{/* The labels of every object. */}}
{{- define "drumbeat.labels" -}}
app.kubernetes.io/name: drumbeat-server
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The labels by which services and the StatefulSet find the pod. */}}
{{- define "drumbeat.selector" -}}
app.kubernetes.io/name: drumbeat-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The name of the StatefulSet, of the service of its pod and of the roles. */}}
{{- define "drumbeat.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* A probe of one of the server's paths, from inside: on loopback, or by TLS without a look at the certificate. */}}
{{- define "drumbeat.probe" -}}
exec:
  command:
    - python
    - -c
    - {{ printf "import ssl; from urllib.request import urlopen; urlopen('%s://127.0.0.1:8470/%s', timeout=8%s)" (ternary "https" "http" (ne .root.Values.users.host "")) .path (ternary ", context=ssl._create_unverified_context()" "" (ne .root.Values.users.host "")) | quote }}
{{- end }}
