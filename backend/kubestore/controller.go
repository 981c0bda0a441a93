package kubestore

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Controller is an application-controller of Argo CD.
type Controller struct {
	Name       string   // kind namespace/name
	Version    string   // the tag of its image
	Namespaces []string // its --application-namespaces: patterns
}

// Controllers returns the application-controllers that run in the namespace: StatefulSets
// and Deployments that are labelled as Argo CD's manifests and charts label them, but those
// without replicas. It needs leave to list these and to get the ConfigMaps that they take
// their settings from, which is argocd-cmd-params-cm.
func (h *Home) Controllers(ctx context.Context) ([]Controller, error) {
	var out []Controller
	for _, resource := range []string{"statefulsets", "deployments"} {
		list, err := h.client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}).
			Namespace(h.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=application-controller"})
		if err != nil {
			return nil, fmt.Errorf("kubestore: list %s of %s: %w", resource, h.cfg.Namespace, known(err))
		}
		for i := range list.Items {
			c, runs, err := h.controller(ctx, &list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("kubestore: settings of %s %s/%s: %w", list.Items[i].GetKind(), h.cfg.Namespace, list.Items[i].GetName(), err)
			}
			if runs {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// A workload is what StatefulSets and Deployments have in common.
type workload struct {
	Spec struct {
		Replicas *int32                 `json:"replicas"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// controller reads a workload; false if it has nothing to run.
func (h *Home) controller(ctx context.Context, u *unstructured.Unstructured) (Controller, bool, error) {
	var w workload
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &w); err != nil {
		return Controller{}, false, err
	}
	containers := w.Spec.Template.Spec.Containers
	if len(containers) == 0 || w.Spec.Replicas != nil && *w.Spec.Replicas == 0 {
		return Controller{}, false, nil
	}
	main := containers[0]
	for _, c := range containers {
		if strings.HasSuffix(c.Name, "application-controller") {
			main = c
			break
		}
	}
	namespaces, err := h.applicationNamespaces(ctx, main)
	return Controller{
		Name:       fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName()),
		Version:    tag(main.Image),
		Namespaces: namespaces,
	}, true, err
}

// tag returns the tag of an image, "" if it has none.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// applicationNamespaces returns the setting of that name as the controller reads it: the
// flag, without one the environment, in which env goes before envFrom. A Secret is not looked
// into.
func (h *Home) applicationNamespaces(ctx context.Context, c corev1.Container) ([]string, error) {
	const flag, variable = "--application-namespaces", "ARGOCD_APPLICATION_NAMESPACES"
	if said, err := flags(slices.Concat(c.Command, c.Args), flag); len(said) > 0 || err != nil {
		return said, err
	}
	for _, e := range c.Env {
		switch {
		case e.Name != variable:
		case e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil:
			return h.setting(ctx, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Key)
		default:
			return split(e.Value), nil
		}
	}
	for _, from := range slices.Backward(c.EnvFrom) { // the last one counts
		key, prefixed := strings.CutPrefix(variable, from.Prefix)
		if from.ConfigMapRef == nil || !prefixed {
			continue
		}
		if said, err := h.setting(ctx, from.ConfigMapRef.Name, key); len(said) > 0 || err != nil {
			return said, err
		}
	}
	return nil, nil
}

// flags returns all that a list of arguments says of a flag which takes values with commas
// between them.
func flags(args []string, flag string) ([]string, error) {
	var out []string
	for i, arg := range args {
		value, is := strings.CutPrefix(arg, flag+"=")
		if arg == flag && i+1 < len(args) {
			value, is = args[i+1], true
		}
		if !is || value == "" {
			continue
		}
		fields, err := csv.NewReader(strings.NewReader(value)).Read()
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", flag, value, err)
		}
		out = append(out, fields...)
	}
	return out, nil
}

// split returns the fields of a variable with commas between them.
func split(value string) []string {
	if value == "" {
		return nil
	}
	fields := strings.Split(value, ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

// setting returns the fields of a value of a ConfigMap, none if it is not there.
func (h *Home) setting(ctx context.Context, name, key string) ([]string, error) {
	u, err := h.client.Resource(configMaps).Namespace(h.cfg.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err = known(err); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configmap %s: %w", name, err)
	}
	text, _, err := unstructured.NestedString(u.Object, "data", key)
	return split(text), err
}
