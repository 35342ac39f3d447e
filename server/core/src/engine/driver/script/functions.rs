//! Libraries of functions: loading their texts, and calling their functions.
//!
//! All libraries of a node share one VM. A library that came from a master, a disk or DEBUG RELOAD is data at first; its text
//! runs when one of its functions is called for the first time. That text can do nothing but register functions, so no
//! client can tell.

use super::super::{Engine, HAS_STATE, Outcome};
use super::{Frame, Kind, Promises, script_killed};
use crate::engine::clients::session::Session;
use crate::engine::context::{RestorePolicy, ScriptCall};
use crate::engine::libraries::{self, Header, Libraries, Library};
use crate::engine::script::{CallbackId, Ended, LIBRARY_NAME, LibraryVm, LoadError, Registered};
use crate::engine::state::State;
use crate::engine::time::UnixMicros;
use crate::resp::{Blob, ErrorReply, OwnedRequest, Reply, Request};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The VM of a node's libraries, and which of them it has loaded.
#[derive(Default)]
pub(super) struct Functions {
    vm: Option<LibraryVm<Frame>>,
    loaded: Vec<Loaded>,
    /// Generation of the libraries at the last look for those that are gone.
    generation: u64,
}

/// A library on the VM.
struct Loaded {
    library: Arc<Library>,
    /// In the order of the library's functions.
    callbacks: Vec<CallbackId>,
}

impl Loaded {
    fn new(library: Arc<Library>, registered: &[Registered]) -> Self {
        Self {
            library,
            callbacks: registered.iter().map(|one| one.callback).collect(),
        }
    }
}

impl Functions {
    /// Drops libraries that the node has no more.
    fn keep(&mut self, libraries: &Libraries) {
        if self.generation == libraries.generation() {
            return;
        }
        self.generation = libraries.generation();
        let mut gone = Vec::new();
        self.loaded.retain(|loaded| {
            let stays = libraries.holds(&loaded.library);
            if !stays {
                gone.extend_from_slice(&loaded.callbacks);
            }
            stays
        });
        if self.loaded.is_empty() {
            self.vm = None;
        }
        if let Some(vm) = &mut self.vm {
            vm.forget(gone.into_iter());
        }
    }

    fn find(&self, library: &Arc<Library>) -> Option<&Loaded> {
        let mut loaded = self.loaded.iter();
        loaded.find(|loaded| Arc::ptr_eq(&loaded.library, library))
    }

    fn clear(&mut self) {
        self.vm = None;
        self.loaded.clear();
    }
}

/// The caller, and the time of its request.
#[derive(Clone, Copy)]
struct Call<'a> {
    session: &'a Session,
    request: Request<'a>,
    now: UnixMicros,
}

impl Engine {
    /// FCALL, FUNCTION LOAD and FUNCTION RESTORE.
    #[cold]
    pub(super) fn run_functions(
        &mut self,
        call: ScriptCall,
        session: Box<Session>,
        request: Request<'_>,
        now: UnixMicros,
    ) -> Outcome {
        let state = self.state.as_ref().expect(HAS_STATE);
        self.runner.functions.keep(&state.scripting.libraries);
        let result = match call {
            ScriptCall::Function {
                first_key,
                keys,
                reads_only,
            } => return self.call_function((first_key, keys), reads_only, session, request, now),
            ScriptCall::LoadLibrary { replaces } => {
                let call = Call {
                    session: &session,
                    request,
                    now,
                };
                self.load_library(replaces, call)
            }
            ScriptCall::RestoreLibraries { policy } => {
                let call = Call {
                    session: &session,
                    request,
                    now,
                };
                self.restore_libraries(policy, call)
            }
            ScriptCall::ReadLibraries => {
                let call = Call {
                    session: &session,
                    request,
                    now,
                };
                self.read_libraries(call)
            }
            ScriptCall::Run { .. } | ScriptCall::Load { .. } => Ok(Reply::Nil),
        };
        let state = self.state_mut();
        if result.is_ok() && !matches!(call, ScriptCall::ReadLibraries) {
            state.record_loading(session.db, request);
        }
        state.clients.sessions.put_back(session);
        Outcome::Reply(result.unwrap_or_else(Reply::Error))
    }

    /// Lends the node's state to the VM of the libraries, which is made at its first use.
    fn on_libraries<R>(
        &mut self,
        frame: Frame,
        work: impl FnOnce(&mut LibraryVm<Frame>, Frame) -> (R, Frame),
    ) -> Result<(R, Frame), (ErrorReply, Frame)> {
        let vm = self.runner.functions.vm.take();
        let mut vm = match vm.map_or_else(|| LibraryVm::new(self.runner.vm_options), Ok) {
            Ok(vm) => vm,
            Err(error) => {
                let error = ErrorReply::new(format!("ERR cannot make a Lua VM: {error}"));
                return Err((error, frame));
            }
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut vm, frame))) {
            Ok(done) => {
                self.runner.functions.vm = Some(vm);
                Ok(done)
            }
            Err(panic) => {
                if let Some(mut frame) = vm.take_host() {
                    frame.end();
                    frame.state.scripting.busy = None;
                    self.state = Some(frame.state);
                }
                self.runner.functions.clear();
                resume_unwind(panic);
            }
        }
    }

    /// Runs the text of a library, which registers its functions. Below the header `header_bytes` long it is Lua.
    fn register(
        &mut self,
        code: &[u8],
        header_bytes: usize,
        call: Call<'_>,
    ) -> Result<Vec<Registered>, ErrorReply> {
        let frame = Frame {
            kind: Kind::Library,
            state: self.state.take().expect(HAS_STATE),
            table: self.table,
            session: Box::new(call.session.clone()),
            caller: call.session.conn,
            now: call.now,
            instructions: 0,
            is_bounded: true,
            was_long: false,
            busy_handler: self.runner.busy_handler.clone(),
        };
        let done = self.on_libraries(frame, |vm, frame| vm.load(&code[header_bytes..], frame));
        let (result, mut frame) = match done {
            Ok(done) => done,
            Err((error, frame)) => (Err(LoadError::Refused(error)), frame),
        };
        frame.end();
        self.state = Some(frame.state);
        result.map_err(|error| match error {
            LoadError::Refused(error) => error,
            LoadError::Stopped => {
                ErrorReply::new("ERR Error registering functions: ERR FUNCTION LOAD timeout")
            }
        })
    }

    /// Makes a library from its text (`functions.c: functionsCreateWithLibraryCtx`). `taken` says which functions
    /// belong to other libraries.
    fn create(
        &mut self,
        code: &[u8],
        header: &Header,
        call: Call<'_>,
        taken: impl Fn(&State, &[u8]) -> bool,
    ) -> Result<Loaded, ErrorReply> {
        let registered = self.register(code, header.len, call)?;
        let state = self.state.as_ref().expect(HAS_STATE);
        let mut names = registered.iter().map(|one| &one.function.name);
        let refusal = match names.find(|name| taken(state, name)) {
            _ if registered.is_empty() => Some(ErrorReply::new("ERR No functions registered")),
            Some(name) => Some(ErrorReply::from_bytes(
                [b"ERR Function ", &**name, b" already exists"].concat(),
            )),
            None => None,
        };
        if let Some(refusal) = refusal {
            self.forget(registered.iter().map(|one| one.callback));
            return Err(refusal);
        }
        let library = Library {
            name: header.name.clone(),
            code: Blob::new(code),
            functions: registered.iter().map(|one| one.function.clone()).collect(),
        };
        Ok(Loaded::new(Arc::new(library), &registered))
    }

    fn forget(&mut self, callbacks: impl Iterator<Item = CallbackId>) {
        if let Some(vm) = &mut self.runner.functions.vm {
            vm.forget(callbacks);
        }
    }

    /// FUNCTION LOAD.
    fn load_library(&mut self, replaces: bool, call: Call<'_>) -> Result<Reply, ErrorReply> {
        let code = call.request.arg(call.request.len() - 1).unwrap_or_default();
        let header = Header::parse(code)?;
        let known = &self.state().scripting.libraries;
        if !replaces && known.get(&header.name).is_some() {
            let text = [b"ERR Library '", &*header.name, b"' already exists"].concat();
            return Err(ErrorReply::from_bytes(text));
        }
        let taken = |state: &State, function: &[u8]| {
            let libraries = &state.scripting.libraries;
            libraries.has_elsewhere(function, &header.name)
        };
        let loaded = self.create(code, &header, call, taken)?;
        let library = Arc::clone(&loaded.library);
        self.runner.functions.loaded.push(loaded);
        self.state_mut().change_libraries(Vec::new(), vec![library]);
        Ok(Reply::Bulk(header.name))
    }

    /// FUNCTION RESTORE.
    fn restore_libraries(
        &mut self,
        policy: RestorePolicy,
        call: Call<'_>,
    ) -> Result<Reply, ErrorReply> {
        let payload = call.request.arg(2).unwrap_or_default();
        let codes = libraries::restore(payload, self.config())?;
        let mut all = Vec::new();
        let result = self.create_all(codes, call, &mut all);
        let result = result.and_then(|restored| {
            let known = &self.state().scripting.libraries;
            let refusal = match policy {
                RestorePolicy::Flush => None,
                RestorePolicy::Append => known.refuse_joining(&restored, false),
                RestorePolicy::Replace => known.refuse_joining(&restored, true),
            };
            refusal.map_or(Ok(restored), Err)
        });
        let restored = match result {
            Ok(restored) => restored,
            Err(error) => {
                self.forget(all.into_iter().flat_map(|one| one.callbacks));
                return Err(error);
            }
        };
        self.runner.functions.loaded.append(&mut all);
        let state = self.state_mut();
        let removed = match policy {
            RestorePolicy::Flush => state.scripting.libraries.names(),
            RestorePolicy::Append | RestorePolicy::Replace => Vec::new(),
        };
        state.change_libraries(removed, restored.iter().cloned().collect());
        Ok(Reply::Ok)
    }

    /// Makes the libraries of a payload; `all` gets those that were made before an error, too.
    fn create_all(
        &mut self,
        codes: impl Iterator<Item = Result<Blob, ErrorReply>>,
        call: Call<'_>,
        all: &mut Vec<Loaded>,
    ) -> Result<Libraries, ErrorReply> {
        let mut restored = Libraries::default();
        for code in codes {
            let code = code?;
            let header = Header::parse(&code)?;
            if restored.get(&header.name).is_some() {
                let text = [b"ERR Library '", &*header.name, b"' already exists"].concat();
                return Err(ErrorReply::from_bytes(text));
            }
            let taken = |_: &State, function: &[u8]| restored.function(function).is_some();
            let loaded = self.create(&code, &header, call, taken)?;
            restored.insert(Arc::clone(&loaded.library));
            all.push(loaded);
        }
        Ok(restored)
    }

    /// Reads the libraries of an RDB file that the node has never loaded.
    fn read_libraries(&mut self, call: Call<'_>) -> Result<Reply, ErrorReply> {
        for code in std::mem::take(&mut self.state_mut().scripting.unread) {
            let header = Header::parse(&code)?;
            let taken = |state: &State, function: &[u8]| {
                let libraries = &state.scripting.libraries;
                libraries.has_elsewhere(function, &header.name)
            };
            let loaded = self.create(&code, &header, call, taken)?;
            let library = Arc::clone(&loaded.library);
            self.runner.functions.loaded.push(loaded);
            self.state_mut().change_libraries(Vec::new(), vec![library]);
        }
        Ok(Reply::Ok)
    }

    /// Reads the libraries of the RDB file with which the node has started.
    pub(in crate::engine) fn read_libraries_at_start(
        &mut self,
        now: UnixMicros,
    ) -> Result<(), ErrorReply> {
        let state = self.state_mut();
        if state.scripting.unread.is_empty() {
            return Ok(());
        }
        // A session for the time of the reading, whose number the first client gets.
        let last_id = state.clients.sessions.last_id();
        let conn = state.clients.sessions.open("", now);
        let session = state.clients.sessions.get_mut(conn).map(|one| one.clone());
        state.disconnect(conn);
        state.clients.sessions.go_on_from(last_id);
        let nothing = OwnedRequest::new([b"".as_slice()]);
        let (Some(session), Some(request)) = (session, nothing.as_request()) else {
            return Ok(());
        };
        let call = Call {
            session: &session,
            request,
            now,
        };
        self.read_libraries(call).map(|_| ())
    }

    /// Makes the VM load a library that is only data so far.
    fn wake(&mut self, library: &Arc<Library>, call: Call<'_>) -> Result<(), ErrorReply> {
        if self.runner.functions.find(library).is_some() {
            return Ok(());
        }
        let header = Header::parse(&library.code)?;
        let registered = self.register(&library.code, header.len, call)?;
        let loaded = Loaded::new(Arc::clone(library), &registered);
        self.runner.functions.loaded.push(loaded);
        Ok(())
    }

    /// FCALL.
    fn call_function(
        &mut self,
        (first_key, keys): (usize, usize),
        reads_only: bool,
        session: Box<Session>,
        request: Request<'_>,
        now: UnixMicros,
    ) -> Outcome {
        let state = self.state.as_mut().expect(HAS_STATE);
        let name = request.arg(1).unwrap_or_default();
        let Some((library, place)) = state.scripting.libraries.function(name) else {
            state.clients.sessions.put_back(session);
            return Outcome::Reply(Reply::error("ERR Function not found"));
        };
        let library = Arc::clone(library);
        let function = &library.functions[place];
        let promises = Promises {
            flags: Some(function.flags),
            reads_only,
        };
        if let Some(refusal) = promises.refuse(state) {
            state.clients.sessions.put_back(session);
            return Outcome::Reply(refusal.into());
        }
        let call = Call {
            session: &session,
            request,
            now,
        };
        let woken = self.wake(&library, call);
        let found = self.runner.functions.find(&library);
        let found = found.and_then(|one| one.callbacks.get(place).copied());
        let callback = match (woken, found) {
            (Ok(()), Some(found)) => found,
            (woken, _) => {
                self.state_mut().clients.sessions.put_back(session);
                let error = woken.err();
                let error = error.unwrap_or_else(|| ErrorReply::new("ERR Function not found"));
                return Outcome::Reply(error.into());
            }
        };
        let mut frame = self.begin(
            Kind::Function,
            promises,
            session,
            (request, first_key, keys),
            now,
        );
        let scripting = &mut frame.state.scripting;
        scripting.began = now;
        scripting.call.clear();
        request.iter().for_each(|arg| scripting.call.push(arg));
        let name = String::from_utf8_lossy(&function.name);
        let done = self.on_libraries(frame, |vm, frame| {
            vm.call(callback, &name, (request, first_key, keys), frame)
        });
        let (ended, frame) = match done {
            Ok(done) => done,
            Err((error, frame)) => (Ended::Error(error), frame),
        };
        let killed = |_: &State, line| script_killed(&name, LIBRARY_NAME, line);
        self.conclude_run(frame, ended, killed)
    }
}
