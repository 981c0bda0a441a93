package stack

import (
	"context"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// startControllers starts the controller manager and the scheduler, and
// returns once the first has made its mark.
func (c *Cluster) startControllers(ctx context.Context) error {
	// Only what workloads, namespaces and ServiceAccounts need.
	names := strings.Join([]string{
		"namespace-controller", "garbage-collector-controller",
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller", "disruption-controller", "endpointslice-controller",
		"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
	}, ",")
	manager := c.part(programs, ControllerManager, ProcessConfig{
		Args: []string{
			"--kubeconfig=" + c.Kubeconfig(),
			"--leader-elect=false",
			"--secure-port=0",
			"--service-account-private-key-file=" + c.file("serviceaccounts.key"),
			"--root-ca-file=" + c.file("ca.crt"),
			"--controllers=" + names,
		},
		Env:   []string{"GOGC=50"},
		Ready: c.hasDefaultAccount,
	})
	scheduler := c.part(programs, Scheduler, ProcessConfig{
		Args: []string{"--kubeconfig=" + c.Kubeconfig(), "--leader-elect=false", "--secure-port=0"},
		Env:  []string{"GOGC=50"},
	})
	if err := scheduler.Start(ctx); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// hasDefaultAccount tells whether the controllers work: one of them makes this
// ServiceAccount.
func (c *Cluster) hasDefaultAccount(ctx context.Context) error {
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	_, err := c.client.Resource(accounts).Namespace(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// path returns the PATH of this process, by which programs find git.
func path() string { return "PATH=" + os.Getenv("PATH") }
