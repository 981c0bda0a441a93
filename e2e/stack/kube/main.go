// Command kube is one binary holding a Kubernetes control plane and kubectl.
// The name it is called by, usually that of a symbolic link, picks the part.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// parts maps each name to the command behind it.
func parts() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	newCommand, ok := parts()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no such part; link this binary to the name of one\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
