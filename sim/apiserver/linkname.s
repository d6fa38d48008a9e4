// Functions without a body, such as those of crdcontrollers.go, are allowed in a package that has a file of
// assembly.
