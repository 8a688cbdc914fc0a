/** The code an empty tab offers. Each runs as it is, once a teacher, a student and a batch exist. */

export const STRUCTURE_EXAMPLE = `from tb_plugin_structure import StructureWriter

with StructureWriter("runs/distillation") as writer:
    writer.add_structure("teacher", teacher, (images,))
    writer.add_structure("student", student, (images,))`;

export const ATTENTION_EXAMPLE = `from tb_plugin_structure import StructureWriter

with StructureWriter("runs/distillation") as writer:
    with writer.record_attention({"teacher": teacher, "student": student}, step=0):
        teacher(images), student(images)`;
