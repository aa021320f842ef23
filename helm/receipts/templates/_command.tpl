{{/*
The pod spec of a container with the `receipts` command: {root, component, values, args, secrets, secretName, configMap, restartPolicy}. It serves
nothing, so it has neither ports nor probes.
*/}}
{{- define "receipts.commandPod" -}}
restartPolicy: {{ .restartPolicy }}
{{ include "receipts.podSpec" . }}
containers:
  - {{- include "receipts.container" . | nindent 4 }}
    volumeMounts:
      - {name: config, mountPath: /etc/receipts/config, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- include "receipts.mountsIn" . | nindent 6 }}
volumes:
  - name: config
    configMap:
      name: {{ .configMap }}
      items:
        - {key: {{ .component }}.toml, path: receipts.toml}
  - name: tmp
    emptyDir: {sizeLimit: 16Mi}
  {{- include "receipts.mountVolumes" . | nindent 2 }}
{{- end -}}
