#include "machine_context.hpp"

#include <cstdint>

#if defined(__x86_64__)

// Saves on the stack what the System V ABI wants a function to keep, and takes it from the other stack. A stack that
// has just begun holds the function and its argument in r12 and r13 instead, and `interleaving_begin` to return to.
extern "C" void interleaving_switch(void** from, void* to) noexcept;
extern "C" void interleaving_begin() noexcept;

asm(R"(
.text
.p2align 4
.globl interleaving_switch
.type interleaving_switch, @function
interleaving_switch:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size interleaving_switch, .-interleaving_switch

.p2align 4
.globl interleaving_begin
.type interleaving_begin, @function
interleaving_begin:
  .cfi_startproc
  .cfi_undefined %rip
  endbr64
  movq %r13, %rdi
  callq *%r12
  ud2
  .cfi_endproc
.size interleaving_begin, .-interleaving_begin
)");

namespace interleaving {

void machine_context::begin(void* stack, std::size_t size, void (*function)(void*), void* argument) noexcept {
  auto* top = reinterpret_cast<std::uintptr_t*>((reinterpret_cast<std::uintptr_t>(stack) + size) & ~std::uintptr_t{15});
  *--top = 0;
  *--top = 0;  // so that the stack is aligned where interleaving_begin calls
  *--top = reinterpret_cast<std::uintptr_t>(&interleaving_begin);
  *--top = 0;                                           // rbp
  *--top = 0;                                           // rbx
  *--top = reinterpret_cast<std::uintptr_t>(function);  // r12
  *--top = reinterpret_cast<std::uintptr_t>(argument);  // r13
  *--top = 0;                                           // r14
  *--top = 0;                                           // r15
  stack_pointer_ = top;
}

void machine_context::switch_to(machine_context& other) noexcept {
  interleaving_switch(&stack_pointer_, other.stack_pointer_);
}

}  // namespace interleaving

#else

namespace interleaving {

namespace {

unsigned int high(std::uintptr_t n) noexcept { return static_cast<unsigned int>(n >> 16 >> 16); }
unsigned int low(std::uintptr_t n) noexcept { return static_cast<unsigned int>(n & 0xffffffff); }
std::uintptr_t whole(unsigned int h, unsigned int l) noexcept { return std::uintptr_t{h} << 16 << 16 | l; }

}  // namespace

void machine_context::call(unsigned int function_high, unsigned int function_low, unsigned int argument_high,
                           unsigned int argument_low) {
  reinterpret_cast<void (*)(void*)>(whole(function_high, function_low))(
      reinterpret_cast<void*>(whole(argument_high, argument_low)));
}

void machine_context::begin(void* stack, std::size_t size, void (*function)(void*), void* argument) noexcept {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = size;
  context_.uc_link = nullptr;
  const auto f = reinterpret_cast<std::uintptr_t>(function);
  const auto a = reinterpret_cast<std::uintptr_t>(argument);
  makecontext(&context_, reinterpret_cast<void (*)()>(&machine_context::call), 4, high(f), low(f), high(a), low(a));
}

void machine_context::switch_to(machine_context& other) noexcept { swapcontext(&context_, &other.context_); }

}  // namespace interleaving

#endif
