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
    ...textBrewer(teacher, student),
    { library: "pins for align()", text: `pins={${s}: ${t}}` },
  ];
}

/**
 * TextBrewer pairs hidden states by number: what the model's output adaptor returns as `hidden`, where 0 is the
 * embeddings and k + 1 comes out of block k. Only blocks of a stack have such a number.
 */
function textBrewer(teacher: string, student: string): { library: string; text: string }[] {
  const [t, s] = [teacher, student].map((path) => /\.(\d+)$/.exec(path)?.[1]);
  if (t === undefined || s === undefined) return [];
  return [
    {
      library: "TextBrewer",
      text: `{"layer_T": ${Number(t) + 1}, "layer_S": ${Number(s) + 1}, "feature": "hidden", "loss": "hidden_mse", "weight": 1}`,
    },
  ];
}
