//! The GPU: loads CUDA without a panic if it is missing, creates buffers, and runs a plan.

use std::sync::Arc;

use cli::Failure;
use cudarc::cublas::{CudaBlas, result as blas, sys as blas_sys};
use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr as _, DriverError, LaunchConfig,
    PushKernelArg as _, sys,
};
use cudarc::nvrtc::Ptx;

use super::plan::{Arg, Buffer, Call, KERNEL_NAMES, Launch, Plan, Product, THREADS, WEIGHTS};
use super::plan::{GRADIENTS, VELOCITY};

/// Compiled from `kernels.cu` by `compile_ptx.py`.
const PTX: &str = include_str!("kernels.ptx");

/// Functions of the driver that are called; `cudarc` panics on a missing one, so they are checked first.
const NEEDED: [&str; 21] = [
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuLaunchKernel",
    "cuStreamSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
];
const NEEDED_BLAS: [&str; 4] = [
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasSetStream_v2",
    "cublasSgemm_v2",
];

/// An open GPU.
pub(super) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    functions: Vec<CudaFunction>,
    blas: Option<CudaBlas>,
    sms: u32,
}

/// A plan with its buffers on the device.
pub(super) struct Loaded {
    pub(super) plan: Plan,
    buffers: Vec<CudaSlice<f32>>,
    pointers: Vec<u64>,
}

fn failed(what: &str) -> impl FnOnce(DriverError) -> Failure {
    let what = what.to_owned();
    move |e| Failure::Environment(format!("the GPU {what}: {e}"))
}

fn size_error() -> Failure {
    Failure::Environment("a size is beyond what cuBLAS takes".to_owned())
}

#[expect(unsafe_code, reason = "CUDA is a C library loaded at run time")]
fn check_driver() -> Result<(), Failure> {
    // SAFETY: loading libcuda runs its initialisers, which NVIDIA supports in any process.
    if !unsafe { sys::is_culib_present() } {
        return Err(Failure::Environment(
            "no usable GPU: the CUDA driver library (libcuda.so.1) cannot be loaded; install the \
             NVIDIA driver, or train with --device cpu"
                .to_owned(),
        ));
    }
    for name in NEEDED {
        // SAFETY: the symbol is only looked up, never called through this type.
        if unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(Failure::Environment(format!(
                "no usable GPU: the CUDA driver library has no {name}; it is too old"
            )));
        }
    }
    Ok(())
}

/// cuBLAS, if it is completely installed and opens; otherwise the embedded products are used. The worker's line `ready`
/// names the one in use.
#[expect(unsafe_code, reason = "cuBLAS is a C library loaded at run time")]
fn open_blas(stream: &Arc<CudaStream>) -> Option<CudaBlas> {
    // SAFETY: loading the library has no precondition.
    if !unsafe { blas_sys::is_culib_present() } {
        return None;
    }
    let whole = NEEDED_BLAS.iter().all(|name| {
        // SAFETY: the symbol is only looked up, never called through this type.
        unsafe { blas_sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    });
    if whole {
        CudaBlas::new(stream.clone()).ok()
    } else {
        None
    }
}

impl Gpu {
    /// Opens the first GPU that `CUDA_VISIBLE_DEVICES` shows and loads the kernels.
    #[expect(unsafe_code, reason = "one stream needs no events, which cost time")]
    pub(super) fn open() -> Result<Self, Failure> {
        check_driver()?;
        let context = CudaContext::new(0).map_err(failed("cannot be opened"))?;
        // SAFETY: everything here is issued to the one default stream, in order.
        unsafe { context.disable_event_tracking() };
        let stream = context.default_stream();
        let module = context
            .load_module(Ptx::from_src(PTX))
            .map_err(failed("refuses the kernels"))?;
        let functions = KERNEL_NAMES
            .iter()
            .map(|name| module.load_function(name))
            .collect::<Result<_, _>>()
            .map_err(failed("lacks a kernel"))?;
        let sms = context
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(failed("does not tell its SMs"))?;
        Ok(Self {
            blas: open_blas(&stream),
            context,
            stream,
            functions,
            sms: u32::try_from(sms).unwrap_or(1).max(1),
        })
    }

    /// SMs that this process may use: under MPS, those of its share.
    pub(super) fn sms(&self) -> u32 {
        self.sms
    }

    /// Whether this process is an MPS client; `None` if the driver is too old to report it.
    pub(super) fn mps(&self) -> Option<bool> {
        let answer = self
            .context
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
        answer.ok().map(|v| v != 0)
    }

    pub(super) fn has_cublas(&self) -> bool {
        self.blas.is_some()
    }

    /// Creates the buffers of a plan, all zero, but takes over the parameters from an old one.
    pub(super) fn load(&self, plan: Plan, old: Option<Loaded>) -> Result<Loaded, Failure> {
        let mut buffers = Vec::with_capacity(plan.buffers.len());
        let parameters = plan.buffers[WEIGHTS];
        if let Some(mut old) = old
            && old.plan.buffers[WEIGHTS] == parameters
        {
            // The other old buffers are freed before new ones are created, so that they need not fit together.
            old.buffers.truncate(VELOCITY + 1);
            buffers = old.buffers;
        }
        for &elements in &plan.buffers[buffers.len()..] {
            let n = usize::try_from(elements.max(1)).unwrap_or(usize::MAX);
            let buffer = self.stream.alloc_zeros::<f32>(n).map_err(|e| {
                Failure::Environment(format!(
                    "the GPU has no room for {} MiB of this batch: {e}",
                    plan.buffers.iter().sum::<u64>() >> 18
                ))
            })?;
            buffers.push(buffer);
        }
        let pointers = buffers
            .iter()
            .map(|b| b.device_ptr(&self.stream).0)
            .collect();
        Ok(Loaded {
            plan,
            buffers,
            pointers,
        })
    }

    /// Copies numbers into the front of a buffer.
    pub(super) fn write(
        &self,
        loaded: &mut Loaded,
        buffer: Buffer,
        values: &[f32],
    ) -> Result<(), Failure> {
        self.stream
            .memcpy_htod(values, &mut loaded.buffers[buffer])
            .map_err(failed("does not take data"))
    }

    /// Waits for all previous work and reads one number.
    pub(super) fn read(&self, loaded: &Loaded, buffer: Buffer, at: u32) -> Result<f32, Failure> {
        let at = at as usize;
        let view = loaded.buffers[buffer].slice(at..=at);
        let mut value = [0.0];
        self.stream
            .memcpy_dtoh(&view, &mut value)
            .and_then(|()| self.stream.synchronize())
            .map_err(failed("failed in a step"))?;
        Ok(value[0])
    }

    /// Issues the calls of one step.
    pub(super) fn run(&self, loaded: &Loaded) -> Result<(), Failure> {
        debug_assert!(loaded.pointers.len() > GRADIENTS);
        for call in &loaded.plan.calls {
            match (call, &self.blas) {
                (Call::Launch(launch), _) => self.launch(loaded, launch)?,
                (Call::Product(product), Some(blas)) => Self::product(blas, loaded, product)?,
                (Call::Product(product), None) => self.launch(loaded, &product.launch())?,
            }
        }
        Ok(())
    }

    #[expect(
        unsafe_code,
        reason = "a kernel's arguments cannot be checked by the compiler"
    )]
    fn launch(&self, loaded: &Loaded, launch: &Launch) -> Result<(), Failure> {
        let values: Vec<Value> = launch.args.iter().map(|a| loaded.value(*a)).collect();
        let mut builder = self
            .stream
            .launch_builder(&self.functions[launch.kernel as usize]);
        for value in &values {
            match value {
                Value::Pointer(v) => builder.arg(v),
                Value::Int(v) => builder.arg(v),
                Value::Float(v) => builder.arg(v),
            };
        }
        let config = LaunchConfig {
            grid_dim: launch.grid,
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the planner gives each kernel the arguments of its signature, and buffers of
        // the sizes that it passes along; both are tested against the kernels themselves.
        unsafe { builder.launch(config) }
            .map(|_| ())
            .map_err(failed("refuses a kernel"))
    }

    /// Computes a row-major product by cuBLAS's column-major one: `C' = B' A'`.
    #[expect(unsafe_code, reason = "cuBLAS takes raw pointers")]
    fn product(blas: &CudaBlas, loaded: &Loaded, p: &Product) -> Result<(), Failure> {
        use blas_sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
        let operation = |turned| if turned { CUBLAS_OP_T } else { CUBLAS_OP_N };
        let int = |v: u32| i32::try_from(v).map_err(|_| size_error());
        let [m, n, k] = [int(p.m)?, int(p.n)?, int(p.k)?];
        let alpha = 1.0f32;
        let beta = if p.add { 1.0f32 } else { 0.0 };
        // SAFETY: as for a launch; `alpha` and `beta` outlive the call.
        unsafe {
            blas::sgemm(
                *blas.handle(),
                operation(p.b_turned),
                operation(p.a_turned),
                n,
                m,
                k,
                &raw const alpha,
                loaded.address(p.b) as *const f32,
                if p.b_turned { k } else { n },
                loaded.address(p.a) as *const f32,
                if p.a_turned { m } else { k },
                &raw const beta,
                loaded.address(p.c) as *mut f32,
                n,
            )
        }
        .map_err(|e| Failure::Environment(format!("cuBLAS refuses a product: {e}")))
    }
}

/// An argument in the driver's form.
enum Value {
    Pointer(u64),
    Int(u32),
    Float(f32),
}

impl Loaded {
    fn value(&self, arg: Arg) -> Value {
        match arg {
            Arg::At(..) => Value::Pointer(self.address(arg)),
            Arg::Int(v) => Value::Int(v),
            Arg::Float(v) => Value::Float(v),
        }
    }

    fn address(&self, arg: Arg) -> u64 {
        match arg {
            Arg::At(buffer, element) => self.pointers[buffer] + 4 * u64::from(element),
            Arg::Int(_) | Arg::Float(_) => 0,
        }
    }
}
