{{- /*
The charts have the manifests of deploy/ themselves, in files/, and say here what values change of
them: nothing, as long as no value is given.
*/ -}}

{{- /* Shows the objects of the files named, in the namespace of the release. */ -}}
{{- define "argocd-agent.files" }}
{{- range $file := .files }}
{{- range splitList "\n---\n" ($.root.Files.Get (printf "files/%s" $file)) }}
{{- include "argocd-agent.object" (dict "root" $.root "object" (fromYaml .)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Shows one object. */ -}}
{{- define "argocd-agent.object" }}
{{- $namespace := .root.Release.Namespace }}
{{- if hasKey .object.metadata "namespace" }}{{ $_ := set .object.metadata "namespace" $namespace }}{{ end }}
{{- range .object.subjects }}{{ $_ := set . "namespace" $namespace }}{{ end }}
---
{{ toYaml .object }}
{{- end }}

{{- /* Shows the settings: those of params.yaml, with patches, and the value params on top. */ -}}
{{- define "argocd-agent.params" }}
{{- $o := fromYaml (.root.Files.Get "files/params.yaml") }}
{{- $_ := set $o.data (printf "%s.namespace" .program) .root.Release.Namespace }}
{{- range .patches }}
{{- range $key, $value := .data }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $o.data $key }}{{ else }}{{ $_ := set $o.data $key $value }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := mergeOverwrite $o.data .root.Values.params }}
{{- include "argocd-agent.object" (dict "root" .root "object" $o) }}
{{- end }}

{{- /* Returns ports, as {ports: …}, with those that a patch adds and without those that it deletes by a key. */ -}}
{{- define "argocd-agent.ports" }}
{{- $gone := list }}
{{- $all := .ports }}
{{- range .patch }}
{{- if hasKey . "$patch" }}{{ $gone = append $gone (index . $.key) }}{{ else }}{{ $all = append $all . }}{{ end }}
{{- end }}
{{- $left := list }}
{{- range $all }}{{ if not (has (index . $.key) $gone) }}{{ $left = append $left . }}{{ end }}{{ end }}
{{- toYaml (dict "ports" $left) }}
{{- end }}

{{- /* Shows the Deployment, with what patches say of it. */ -}}
{{- define "argocd-agent.deployment" }}
{{- $v := .root.Values }}
{{- $o := fromYaml (.root.Files.Get "files/deployment.yaml") }}
{{- $template := $o.spec.template }}
{{- $pod := $template.spec }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" (printf "%s:%s" $v.image.repository $v.image.tag) }}
{{- with $v.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- with $v.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- range .patches }}
{{- $patch := .spec.template.spec }}
{{- $ours := first $patch.containers }}
{{- range $key := list "env" "volumeMounts" }}
{{- $all := list }}
{{- $gone := list }}
{{- range index $ours $key }}{{ if hasKey . "$patch" }}{{ $gone = append $gone .name }}{{ else }}{{ $all = append $all . }}{{ end }}{{ end }}
{{- range index $container $key }}{{ if not (has .name $gone) }}{{ $all = append $all . }}{{ end }}{{ end }}
{{- $_ := set $container $key $all }}
{{- end }}
{{- $ports := fromYaml (include "argocd-agent.ports" (dict "ports" $container.ports "patch" $ours.ports "key" "containerPort")) }}
{{- $_ := set $container "ports" $ports.ports }}
{{- $_ := set $pod "volumes" (concat $pod.volumes (default list $patch.volumes)) }}
{{- end }}
{{- $_ := set $container "env" (concat $container.env $v.extraEnv) }}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts $v.extraVolumeMounts) }}
{{- $_ := set $pod "volumes" (concat $pod.volumes $v.extraVolumes) }}
{{- if $v.persistence.enabled }}
{{- range $pod.volumes }}
{{- if eq .name "messages" }}
{{- $_ := unset . "emptyDir" }}
{{- $_ := set . "persistentVolumeClaim" (dict "claimName" (default $o.metadata.name $v.persistence.existingClaim)) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key := list "affinity" "imagePullSecrets" "nodeSelector" "priorityClassName" "tolerations" }}
{{- with index $v $key }}{{ $_ := set $pod $key . }}{{ end }}
{{- end }}
{{- with $v.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end }}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels $v.podLabels) }}
{{- include "argocd-agent.object" (dict "root" .root "object" $o) }}
{{- end }}

{{- /* Shows the claim of a volume for the store, if there is to be one of ours. */ -}}
{{- define "argocd-agent.volume" }}
{{- $v := .Values.persistence }}
{{- if and $v.enabled (not $v.existingClaim) }}
{{- $o := fromYaml (.Files.Get "files/persistent/volume.yaml") }}
{{- $_ := set $o.spec.resources.requests "storage" $v.size }}
{{- with $v.storageClassName }}{{ $_ := set $o.spec "storageClassName" . }}{{ end }}
{{- include "argocd-agent.object" (dict "root" . "object" $o) }}
{{- end }}
{{- end }}

{{- /* Shows what a Prometheus operator needs to read metrics, if it is to. */ -}}
{{- define "argocd-agent.metrics" }}
{{- if .Values.serviceMonitor.enabled }}
{{- range splitList "\n---\n" (.Files.Get "files/metrics/service.yaml") }}
{{- $o := fromYaml . }}
{{- if eq $o.kind "ServiceMonitor" }}{{ $_ := set $o.metadata "labels" (merge $o.metadata.labels $.Values.serviceMonitor.labels) }}{{ end }}
{{- include "argocd-agent.object" (dict "root" $ "object" $o) }}
{{- end }}
{{- end }}
{{- end }}
