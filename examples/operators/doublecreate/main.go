// Command doublecreate is an operator that builds images: for a Build it creates one Job, and the Build's status
// says which.
//
// Its fault: it asks its cache whether the Build has a Job, and lets the API server choose the Job's name. The
// cache shows what the operator itself has just created only when the event has come. What wakes it before that,
// such as the event of its own status write, finds no Job and makes another one, and the image is built twice.
// With --fixed the Job has a name that follows from the Build's: the second create is refused by the API server,
// and tried again until the cache shows the first.
//
// So it went in kaito-project/kaito#1300 (two hundred machines in place of one), tektoncd/pipeline#3126 and
// cert-manager/cert-manager#6331.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const buildLabel = "ci.example.com/build"

// BuildReconciler has images built.
type BuildReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile sees to it that one build has its job.
func (r *BuildReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	build := &Build{}
	if err := r.Get(ctx, req.NamespacedName, build); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, client.InNamespace(build.Namespace), client.MatchingLabels{buildLabel: build.Name}); err != nil {
		return ctrl.Result{}, err
	}
	if len(jobs.Items) > 0 {
		return ctrl.Result{}, r.report(ctx, build, jobs.Items[0].Name)
	}
	job := r.job(build)
	if err := controllerutil.SetControllerReference(build, job, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, job); err != nil {
		return ctrl.Result{}, fmt.Errorf("create job: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, build, job.Name)
}

// job builds the image.
func (r *BuildReconciler) job(build *Build) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: build.Namespace, GenerateName: build.Name + "-", Labels: map[string]string{buildLabel: build.Name},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "builder", Image: "builder", Args: []string{build.Spec.Image}}},
		}}},
	}
	if r.Fixed {
		job.GenerateName, job.Name = "", build.Name+"-build"
	}
	return job
}

// report says which job builds the image.
func (r *BuildReconciler) report(ctx context.Context, build *Build, job string) error {
	if build.Status.Job != "" {
		return nil
	}
	before := build.DeepCopyObject().(*Build)
	build.Status.Job = job
	if err := r.Status().Patch(ctx, build, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

func main() {
	fixed := flag.Bool("fixed", false, "run the mended twin")
	metrics := flag.String("metrics-bind-address", "0", "address of the metrics endpoint; 0 for none")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))

	if err := run(*fixed, *metrics); err != nil {
		ctrl.Log.Error(err, "Operator ended")
		os.Exit(1)
	}
}

func run(fixed bool, metrics string) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: metrics},
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Build{}).
		Complete(&BuildReconciler{Client: mgr.GetClient(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
