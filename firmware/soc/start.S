/* From reset to main, for the boot ROM and for images that it loads: sets the stack, and clears
 * variables without an initial value. A trap without a handler is reported on a fresh stack. */
  .section .text.start, "ax"
  .globl _start
_start:
  la sp, stack_end
  la t0, 4f
  csrw mtvec, t0
  la t0, bss_begin
  la t1, bss_end
1:
  bgeu t0, t1, 2f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 1b
2:
  call main
3:
  j 3b
  .balign 4
4:
  la sp, stack_end
  csrr a0, mcause
  csrr a1, mepc
  csrr a2, mtval
  j soc_trap
