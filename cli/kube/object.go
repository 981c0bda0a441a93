package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// Objects of a few kinds are read and written as what they are, by the client that knows none: the
// one that does brings all kinds of Kubernetes into the program.

func read(ctx context.Context, from dynamic.ResourceInterface, name string, o runtime.Object) error {
	u, err := from.Get(ctx, name, metav1.GetOptions{})
	return into(o, u, err)
}

// create makes an object, whose kind is set, and has o be what became of it.
func create(ctx context.Context, at dynamic.ResourceInterface, o runtime.Object) error {
	u, err := loose(o)
	if err == nil {
		u, err = at.Create(ctx, u, metav1.CreateOptions{})
	}
	return into(o, u, err)
}

func update(ctx context.Context, at dynamic.ResourceInterface, o runtime.Object) error {
	u, err := loose(o)
	if err == nil {
		u, err = at.Update(ctx, u, metav1.UpdateOptions{})
	}
	return into(o, u, err)
}

func loose(o runtime.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: fields}, err
}

func into(o runtime.Object, u *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
}
