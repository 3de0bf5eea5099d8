"""Tests of the callbacks and of NVFlare's components with stand-ins for their frameworks.

frameworks_test.py and examples/nvflare test them with the frameworks themselves.
"""

import importlib
import io
import json
import pathlib
import shlex
import sys
import tempfile
import types
import unittest
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools import Worker  # noqa: E402


def stand_in(**modules):
    """Modules by name (underscores for dots), each with its attributes."""
    made = {}
    for name, names in modules.items():
        path = name.replace("__", ".")
        for end in range(1, path.count(".") + 2):
            part = ".".join(path.split(".")[:end])
            made.setdefault(part, types.ModuleType(part))
        vars(made[path]).update(names)
    return mock.patch.dict(sys.modules, made)


def told(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


@mock.patch.object(Worker, "PAUSE_S", 0)
class Callbacks(unittest.TestCase):
    def test_hugging_face(self):
        out = io.StringIO()
        with stand_in(transformers={"TrainerCallback": object}):
            module = importlib.import_module("mt_tools.huggingface")
        callback = module.MtCallback(Worker(8, samples=64, stdout=out))
        self.assertEqual(callback.batch, 8)
        arguments = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=4, world_size=1)
        control = SimpleNamespace(should_training_stop=False)
        state = SimpleNamespace(is_world_process_zero=True)
        callback.on_step_end(arguments, state, control)
        self.assertFalse(control.should_training_stop)
        callback.on_log(arguments, state, control, logs={"loss": 0.5})
        callback.on_log(arguments, state, control, logs={"learning_rate": 0.1})
        callback.on_step_end(arguments, state, control)
        self.assertTrue(control.should_training_stop)
        callback.on_train_end(arguments, state, control)
        self.assertEqual(told(out), [
            {"mt": "ready"}, {"mt": "step", "samples": 32}, {"mt": "step", "samples": 32, "loss": 0.5},
            {"mt": "done", "samples": 64}])
        # If there are several processes, only the first reports.
        callback.on_step_end(arguments, SimpleNamespace(is_world_process_zero=False), control)
        self.assertEqual(len(told(out)), 4)

    def test_lightning(self):
        out = io.StringIO()
        with stand_in(lightning__pytorch__callbacks={"Callback": object}):
            module = importlib.import_module("mt_tools.lightning")
        callback = module.MtCallback(Worker(4, samples=8, stdout=out))
        trainer = SimpleNamespace(is_global_zero=True, world_size=1, should_stop=False)
        for batch, outputs in (([range(4), range(4)], {"loss": 2.0}), ({"x": range(4)}, None)):
            self.assertFalse(trainer.should_stop)
            callback.on_train_batch_end(trainer, None, outputs, batch, 0)
        self.assertTrue(trainer.should_stop)
        callback.on_train_end(trainer, None)
        self.assertEqual(told(out), [
            {"mt": "ready"}, {"mt": "step", "samples": 4, "loss": 2.0}, {"mt": "step", "samples": 4},
            {"mt": "done", "samples": 8}])

    def test_hugging_face_tells_norms_of_micro_batches(self):
        out = io.StringIO()
        with stand_in(transformers={"TrainerCallback": object}):
            module = importlib.import_module("mt_tools.huggingface")
        callback = module.MtCallback(Worker(8, samples=640, stdout=out))
        arguments = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=4, world_size=1)
        state = SimpleNamespace(is_world_process_zero=True)
        model = SimpleNamespace(parameters=lambda: ["p"])
        squares = iter([4.0, 9.0, 5.0])
        with mock.patch.object(module.GradientNorms, "_square", lambda _: next(squares)):
            for substeps in (3, 2, 3):  # The second step is the last of an epoch.
                for _ in range(substeps):
                    callback.on_substep_end(arguments, state, None, model=model)
                callback.on_step_end(arguments, state, None)
        steps = [t for t in told(out) if t["mt"] == "step"]
        self.assertEqual([t.get("norms") for t in steps], [
            {"small": 8, "small_sq": 36.0, "large": 24, "large_sq": 9.0}, None, None])

    def test_lightning_tells_norms_of_micro_batches(self):
        out = io.StringIO()
        with stand_in(lightning__pytorch__callbacks={"Callback": object}):
            module = importlib.import_module("mt_tools.lightning")
        callback = module.MtCallback(Worker(4, samples=800, stdout=out))
        trainer = SimpleNamespace(is_global_zero=True, world_size=1, should_stop=False, is_last_batch=False,
                                  accumulate_grad_batches=2)
        module_of = SimpleNamespace(parameters=lambda: ["p"])
        squares = iter([4.0, 9.0])
        with mock.patch.object(module.GradientNorms, "_square", lambda _: next(squares)):
            for index in range(3):
                trainer.is_last_batch = index == 2
                batch = [range(4)]
                callback.on_train_batch_start(trainer, module_of, batch, index)
                callback.on_after_backward(trainer, module_of)
                callback.on_train_batch_end(trainer, module_of, None, batch, index)
        steps = [t for t in told(out) if t["mt"] == "step"]
        self.assertEqual([t.get("norms") for t in steps], [
            None, {"small": 4, "small_sq": 16.0, "large": 8, "large_sq": 9.0}, None])

    def test_a_batch_size_that_the_framework_cannot_change_is_refused(self):
        from mt_tools.callback import Teller
        teller = Teller(Worker(4, pool=True, stdin=io.StringIO("batch 8\nrun\n"), stdout=io.StringIO()))
        with self.assertRaisesRegex(SystemExit, "leave `pool` out"):
            teller.step(4)


class NvFlare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        class Launcher:
            def get_command(self, job_meta, fl_ctx):
                return "python -m worker"

        class Manager:
            def __init__(self, resources, expiration_period):
                self.resources = resources

        with stand_in(
            nvflare__apis__job_def={"JobMetaKey": SimpleNamespace(RESOURCE_SPEC=SimpleNamespace(value="resource_spec"))},
            nvflare__apis__resource_manager_spec={"ResourceConsumerSpec": object},
            nvflare__app_common__job_launcher__client_process_launcher={"ClientProcessJobLauncher": Launcher},
            nvflare__app_common__resource_managers__auto_clean_resource_manager={"AutoCleanResourceManager": Manager},
        ):
            cls.module = importlib.import_module("mt_tools.nvflare")

    def test_the_command_gets_the_share_of_its_task_at_its_site(self):
        launcher = self.module.ShareProcessLauncher("/plan a.json")
        meta = {"resource_spec": {"site-1": {"mt_task": "a"}}}
        site = lambda name: SimpleNamespace(get_identity_name=lambda: name)  # noqa: E731
        self.assertEqual(launcher.get_command(meta, site("site-1")).split(),
                         "mt-launch exec --plan '/plan a.json' --task a -- python -m worker".split())
        for options in ("--log 'a b;rm'", ["--log", "a b;rm"]):
            launcher = self.module.ShareProcessLauncher("/p", options)
            words = shlex.split(launcher.get_command(meta, site("site-1")))
            self.assertEqual(words[4:8], ["--log", "a b;rm", "--task", "a"])
        for bad in ("-- sh", "--task b", ["--plan=x"]):
            with self.assertRaisesRegex(ValueError, "set by this launcher"):
                self.module.ShareProcessLauncher("/p", bad)
        for other in (meta, {}, {"resource_spec": None}):
            self.assertEqual(launcher.get_command(other, site("site-2")), "python -m worker")

    def test_each_task_is_admitted_once_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder, "plan.json")
            plan.write_text('{"tasks": [{"id": "a"}, {"id": "b"}]}')
            manager = self.module.TaskResourceManager(str(plan))
            timeline = pathlib.Path(folder, "timeline.json")
            timeline.write_text('{"plan": {"tasks": [{"id": "c"}]}}')
            self.assertEqual(self.module.TaskResourceManager(str(timeline)).resources, {"mt_task": ["c"]})
        free, want = manager._check_required_resource_available, {"mt_task": "a"}
        self.assertTrue(free(want))
        held = manager._reserve_resource(want)
        self.assertFalse(free(want))
        self.assertTrue(free({"mt_task": "b"}) and free({}))
        self.assertFalse(free({"mt_task": "unknown"}))
        manager._deallocate(held)
        self.assertTrue(free(want))
        manager._deallocate(manager._reserve_resource({}))


if __name__ == "__main__":
    unittest.main()
