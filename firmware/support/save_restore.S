/* Saves and restores registers for functions compiled with -msave-restore (clang's feature
 * `save-restore`), which makes code smaller. gcc's library has these functions; ziglang's does not.
 *
 * A function calls __riscv_save_N with the link in t0, and ends by a jump to __riscv_restore_N, for
 * ra and the first N of s0 to s11. The ABI specifies the size of the frame (16 bytes for every
 * four registers), the value of sp, and that t1 may be changed. */
  .section .text.matloom_save_restore, "ax", @progbits

.macro names function, from, to
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
  .if \n >= \from && \n <= \to
  .globl __riscv_\function\()_\n
__riscv_\function\()_\n:
  .endif
  .endr
.endm

names save, 12, 12
  addi sp, sp, -64
  li t1, 0
  sw s11, 12(sp)
  j 1f
names save, 8, 11
  addi sp, sp, -64
  li t1, 16
1:
  sw s10, 16(sp)
  sw s9, 20(sp)
  sw s8, 24(sp)
  sw s7, 28(sp)
  j 2f
names save, 4, 7
  addi sp, sp, -64
  li t1, 32
2:
  sw s6, 32(sp)
  sw s5, 36(sp)
  sw s4, 40(sp)
  sw s3, 44(sp)
  sw s2, 48(sp)
  sw s1, 52(sp)
  sw s0, 56(sp)
  sw ra, 60(sp)
  add sp, sp, t1
  jr t0
names save, 0, 3
  addi sp, sp, -16
  sw s2, 0(sp)
  sw s1, 4(sp)
  sw s0, 8(sp)
  sw ra, 12(sp)
  jr t0

names restore, 12, 12
  lw s11, 12(sp)
  addi sp, sp, 16
names restore, 8, 11
  lw s10, 0(sp)
  lw s9, 4(sp)
  lw s8, 8(sp)
  lw s7, 12(sp)
  addi sp, sp, 16
names restore, 4, 7
  lw s6, 0(sp)
  lw s5, 4(sp)
  lw s4, 8(sp)
  lw s3, 12(sp)
  addi sp, sp, 16
names restore, 0, 3
  lw s2, 0(sp)
  lw s1, 4(sp)
  lw s0, 8(sp)
  lw ra, 12(sp)
  addi sp, sp, 16
  ret
