package stack

import "strings"

// The parts of a cluster, as [Cluster.Process] knows them.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	Redis             = "redis-server"
	RepoServer        = "argocd-repo-server"
	AppController     = "argocd-application-controller"
	ArgoCDServer      = "argocd-server"
)

const (
	kubernetesVersion = "1.34.4"
	argoCDVersion     = "2.14.21"
	kwokVersion       = "0.8.0"
)

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

// components lists what has to be built, the longest build first.
func components() []component {
	return []component{kubeComponent(), argoCDComponent(), kwokComponent()}
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

func argoCDComponent() component {
	const module = "github.com/argoproj/argo-cd/v2"
	crd := func(name string) file {
		return file{module: module, path: "manifests/crds/" + name + "-crd.yaml", name: name + "-crd.yaml"}
	}
	return component{
		name:    "argocd2",
		title:   "Argo CD " + argoCDVersion,
		version: argoCDVersion,
		ldflags: []string{"-X " + module + "/common.version=" + argoCDVersion},
		links: []string{
			"argocd", AppController, "argocd-applicationset-controller",
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
