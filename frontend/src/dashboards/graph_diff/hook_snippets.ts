/** How the libraries for distillation name a pair of modules; each text can be pasted as it is. */
export function hookSnippets(teacher: string, student: string): { library: string; text: string }[] {
  const [t, s] = [JSON.stringify(teacher), JSON.stringify(student)];
  return [
    {
      library: "PyTorch",
      text: `teacher.get_submodule(${t}).register_forward_hook(hook)
student.get_submodule(${s}).register_forward_hook(hook)`,
    },
    {
      library: "torchdistill",
      text: `teacher:
  forward_hook:
    input: []
    output: [${t}]
student:
  forward_hook:
    input: []
    output: [${s}]`,
    },
    {
      library: "mmrazor",
      text: `teacher_recorders=dict(feature=dict(type='ModuleOutputs', source=${t})),
student_recorders=dict(feature=dict(type='ModuleOutputs', source=${s})),`,
    },
    { library: "pins for align()", text: `pins={${s}: ${t}}` },
  ];
}
