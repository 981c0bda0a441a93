package stack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The parts of a cluster, as [Cluster.Process] knows them.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	Redis             = "redis-server"
	redisProxy        = "redis-proxy"
	sharedRedis       = "shared-redis"
	sharedRepoServer  = "shared-repo-server"
	RepoServer        = "argocd-repo-server"
	AppController     = "argocd-application-controller"
	ArgoCDServer      = "argocd-server"
	AppSetController  = "argocd-applicationset-controller"
)

const (
	kubernetesVersion = "1.34.4"
	kwokVersion       = "0.8.0"
)

// DefaultArgoCD is the major version of Argo CD that runs where none is asked for.
const DefaultArgoCD = "2"

// argoCDVersions maps each major version of Argo CD that can be asked for to the one that
// is built; its module is in the directory argocd<major>.
var argoCDVersions = map[string]string{
	"2": "2.14.21",
	"3": "3.2.11",
}

// A component is one binary built from a module below this directory.
type component struct {
	name    string // of the directory that holds the module, and of the binary
	title   string // for people
	version string
	ldflags []string
	links   []string // further names of the binary, each of which picks a part
	files   []file   // taken along from the modules it is built of
}

// A file is copied from a module in the build list beside the binary.
type file struct {
	module string
	path   string
	name   string
}

// components lists what has to be built, the longest build first. argoCD is a major
// version of Argo CD.
func components(argoCD string) ([]component, error) {
	version, ok := argoCDVersions[argoCD]
	if !ok {
		return nil, fmt.Errorf("there is no Argo CD %q: choose one of %s", argoCD, strings.Join(slices.Sorted(maps.Keys(argoCDVersions)), ", "))
	}
	return []component{kubeComponent(), argoCDComponent(argoCD, version), kwokComponent()}, nil
}

func kubeComponent() component {
	// Clients parse the version an API server reports; unset it is v0.0.0.
	const pkg = "k8s.io/component-base/version."
	number := strings.Split(kubernetesVersion, ".")
	return component{
		name:    "kube",
		title:   "Kubernetes " + kubernetesVersion,
		version: kubernetesVersion,
		ldflags: []string{
			"-X " + pkg + "gitVersion=v" + kubernetesVersion,
			"-X " + pkg + "gitMajor=" + number[0],
			"-X " + pkg + "gitMinor=" + number[1],
			"-X " + pkg + "gitTreeState=clean",
		},
		links: []string{"etcd", APIServer, ControllerManager, Scheduler, "kubectl"},
	}
}

func argoCDComponent(major, version string) component {
	module := "github.com/argoproj/argo-cd/v" + major
	crd := func(name string) file {
		return file{module: module, path: "manifests/crds/" + name + "-crd.yaml", name: name + "-crd.yaml"}
	}
	return component{
		name:    "argocd" + major,
		title:   "Argo CD " + version,
		version: version,
		ldflags: []string{"-X " + module + "/common.version=" + version},
		links: []string{
			"argocd", AppController, AppSetController,
			"argocd-git-ask-pass", "argocd-notifications", RepoServer, ArgoCDServer,
		},
		files: []file{crd("application"), crd("applicationset"), crd("appproject")},
	}
}

func kwokComponent() component {
	return component{
		name:    "kwok",
		title:   "kwok " + kwokVersion,
		version: kwokVersion,
		links:   []string{"kwok-stages"},
	}
}
