{{/*
The pod spec of a container with the `receipts` command: {root, component, values, args, secrets, secretName, configMap, serviceAccount,
restartPolicy}. It serves nothing, so it has neither ports nor probes.
*/}}
{{- define "receipts.commandPod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
restartPolicy: {{ .restartPolicy }}
serviceAccountName: {{ .serviceAccount }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "receipts.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{ toJson .args }}
    env:
      {{- include "receipts.env" . | nindent 6 }}
    resources:
      {{- toYaml $values.resources | nindent 6 }}
    securityContext:
      {{- toYaml $root.Values.containerSecurityContext | nindent 6 }}
    volumeMounts:
      - {name: config, mountPath: /etc/receipts/config, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- include "receipts.mountsIn" $root | nindent 6 }}
volumes:
  - name: config
    configMap:
      name: {{ .configMap }}
      items:
        - {key: {{ .component }}.toml, path: receipts.toml}
  - name: tmp
    emptyDir: {sizeLimit: 16Mi}
  {{- include "receipts.mountVolumes" $root | nindent 2 }}
{{- end -}}
