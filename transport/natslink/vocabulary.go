package natslink

import "github.com/nats-io/nats.go"

// vocabulary is what rows are about to repeat, most likely what stands last: values of Applications as
// Argo CD writes them, and headers of events. Both ends have to have the same, and a test says so: another
// is another form of frames (see hello.Reads).
func vocabulary() []byte {
	h := nats.Header{
		"ce-digest": {"00000000000000000000000000000000"}, "ce-by": {"00000000-0000-4000-8000-000000000000"},
		"ce-id": {"01-00000000"}, "ce-phase": {"live"}, "ce-protocolversion": {"1"}, "ce-time": {"2026-01-01T00:00:00.000000000Z"},
		"ce-source": {"argocd-agent://00000000-0000-4000-8000-000000000000"}, "ce-specversion": {"1.0"}, "content-type": {"application/json"},
		"ce-traceparent": {"00-00000000000000000000000000000000-0000000000000000-01"}, "ce-uid": {"00000000-0000-4000-8000-000000000000"},
		digestHeader: {"00000000000000000000000000000000"},
	}
	with := func(b []byte, key, kind, data string) []byte {
		h["ce-subject"], h["ce-type"] = []string{key}, []string{"io.argoproj.argocd-agent.event." + kind}
		return appendRow(b, row{seq: 1, tail: encodeKey(key), header: h, data: []byte(data)})
	}
	b := with([]byte(words), "$manifest", "manifest", wordsOfManifest)
	return with(b, "Application/argocd/guestbook", "state", wordsOfState)
}

// The JSON of what is told now and then, of manifests, and of states.
const (
	words = `"kind":"ApplicationSet""kind":"AppProject","metadata":{"annotations":{"creationTimestamp":"finalizers":["resources-finalizer.argocd.argoproj.io"],"labels":{"app.kubernetes.io/instance":"app.kubernetes.io/name":"` +
		`"spec":{"clusterResourceWhitelist":[{"group":"*","kind":"*"}],"namespaceResourceWhitelist":"description":"sourceRepos":["*"],"sourceNamespaces":["roles":[{"policies":["p, proj:` +
		`"spec":{"destination":{"name":"in-cluster","namespace":"default","server":"https://kubernetes.default.svc"},"ignoreDifferences":[{"jqPathExpressions":["jsonPointers":["/spec/replicas"],"info":["project":"default","revisionHistoryLimit":` +
		`"source":{"chart":"helm":{"parameters":[{"forceString":true,"name":"value":"releaseName":"valueFiles":["values.yaml"],"valuesObject":{"kustomize":{"images":["path":"directory":{"recurse":true},"repoURL":"https://github.com/","targetRevision":"HEAD"}` +
		`,"sources":[{"ref":"values"}],"syncPolicy":{"automated":{"allowEmpty":true,"prune":true,"selfHeal":true},"managedNamespaceMetadata":{"retry":{"backoff":{"duration":"5s","factor":2,"maxDuration":"3m0s"},"limit":5},"syncOptions":["CreateNamespace=true","PruneLast=true","ServerSideApply=true"]}` +
		`"operationID":"operation":{"initiatedBy":{"automated":true,"username":"admin"},"retry":{"limit":5},"sync":{"prune":true,"revision":"syncStrategy":{"hook":{}}}}"fault":"terminate":"refresh":"normal-hard-` +
		`"operationState":{"finishedAt":"2026-01-01T00:00:00Z","message":"successfully synced (all tasks run)","waiting for healthy state of apps/Deployment/","operation":{"phase":"Succeeded","Running","Failed","Error","startedAt":"2026-01-01T00:00:00Z","syncResult":{"resources":[{"group":"","hookPhase":"Running","hookType":"PreSync","PostSync","kind":"message":"` +
		` created"," configured"," unchanged"," pruned","serverside-applied","name":"namespace":"status":"Synced","syncPhase":"Sync","version":"v1"},"revision":"source":{`
	wordsOfManifest = `{"epoch":"","by":"00000000-0000-4000-8000-000000000000","since":"0","age":"0","peak":"0","count":1,"root":"0000000000000000","answered":{"epoch":"","n":"0"}}`
	wordsOfState    = `{"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = ","type":"ComparisonError"},"OrphanedResourceWarning""SyncError"],"controllerNamespace":"argocd",` +
		`"health":{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"status":"Missing"},"Suspended","Unknown","Degraded","Progressing","Healthy"},"history":[{"deployStartedAt":"deployedAt":"id":0,"initiatedBy":{"automated":true},"revision":"source":{"path":"repoURL":"targetRevision":"}}],"observedAt":"reconciledAt":"2026-01-01T00:00:00Z",` +
		`"resourceHealthSource":"appTree","resources":[{"group":"apiextensions.k8s.io","kind":"CustomResourceDefinition","name":"},{"group":"autoscaling","kind":"HorizontalPodAutoscaler"{"group":"networking.k8s.io","health":{"status":"Healthy"},"kind":"Ingress","NetworkPolicy"{"group":"policy","kind":"PodDisruptionBudget"` +
		`{"group":"rbac.authorization.k8s.io","kind":"ClusterRole","kind":"ClusterRoleBinding","kind":"Role","kind":"RoleBinding"{"group":"batch","kind":"CronJob","kind":"Job"{"kind":"ConfigMap","kind":"Namespace","kind":"PersistentVolumeClaim","kind":"Secret","kind":"ServiceAccount","namespace":"hook":true,"requiresPruning":true,"syncWave":1,` +
		`"status":"OutOfSync","version":"v1beta1"},{"health":{"status":"Healthy"},"kind":"Service","name":"namespace":"status":"Synced","version":"v1"},{"group":"apps","health":{"status":"Progressing"},"kind":"DaemonSet","kind":"StatefulSet","name":"namespace":"default","status":"Synced","version":"v1"},` +
		`{"group":"apps","health":{"status":"Healthy"},"kind":"Deployment","name":"namespace":"default","status":"Synced","version":"v1"}],"sourceHydrator":{},"sourceType":"Directory","Helm","Kustomize","summary":{"externalURLs":["https://","images":["quay.io/docker.io/ghcr.io/registry.k8s.io/"]},` +
		`"sync":{"comparedTo":{"destination":{"name":"namespace":"server":"https://kubernetes.default.svc"},"source":{"path":"repoURL":"https://github.com/","targetRevision":"HEAD"}},"revision":"","status":"Synced"}}}`
)
