{{- define "receipts.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "receipts.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "receipts.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component, or of all with an empty one: {root, component}. */}}
{{- define "receipts.selector" -}}
app.kubernetes.io/name: {{ include "receipts.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: {root, component, name, labels, annotations}. A label that selects is the chart's, whatever values say. */}}
{{- define "receipts.metadata" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" -}}
{{- $labels := dict "app.kubernetes.io/version" .root.Chart.AppVersion "app.kubernetes.io/part-of" "receipts" "helm.sh/chart" $chart -}}
{{- $selector := include "receipts.selector" . | fromYaml -}}
{{- $managed := dict "app.kubernetes.io/managed-by" .root.Release.Service -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- mergeOverwrite $labels .root.Values.commonLabels (.labels | default dict) $selector $managed | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) .root.Values.commonAnnotations (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Metadata of a pod: {root, component, values, annotations}. Without the chart's version: a new chart alone restarts nothing.
*/}}
{{- define "receipts.podMetadata" -}}
labels:
  {{- include "receipts.selector" . | fromYaml | mergeOverwrite (dict) .root.Values.commonLabels .values.podLabels | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) (.annotations | default dict) .root.Values.commonAnnotations .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The image of every container; its argument is the root. */}}
{{- define "receipts.image" -}}
{{- $image := .Values.image -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry | required "image.registry or global.imageRegistry: where your images are (docker.io/library for images that are only on the nodes)" -}}
{{- $name := printf "%s/%s" (trimSuffix "/" $registry) ($image.name | default (ternary "receipts-all-in-one" "receipts" (eq .Values.mode "allInOne"))) -}}
{{- with $image.digest -}}
{{- printf "%s@%s" $name . -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* {root, component} */}}
{{- define "receipts.serviceAccount" -}}
{{- $account := .root.Values.serviceAccount -}}
{{- if and $account.create $account.name -}}
{{- fail "serviceAccount.name: of one of yours, with serviceAccount.create: false" -}}
{{- end -}}
{{- ternary (printf "%s-%s" (include "receipts.fullname" .root) .component) ($account.name | default "default") $account.create -}}
{{- end -}}

{{/*
Replicas of a Deployment or StatefulSet: those of the values, or those that run, or the first number: {root, kind, name, given, first}. A
manifest without them would set 1 when the last one had a number, as when autoscaling is switched on.
*/}}
{{- define "receipts.replicas" -}}
{{- $live := lookup "apps/v1" .kind .root.Release.Namespace .name -}}
{{- if not (kindIs "invalid" .given) -}}
{{- .given -}}
{{- else if $live -}}
{{- $live.spec.replicas -}}
{{- else -}}
{{- .first -}}
{{- end -}}
{{- end -}}
